#include "apps/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/common/available_cpus.h"
#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
#include "kernels/matmul/matmul.h"

namespace genesis {

std::unique_ptr<Device> open_device(const Config::Device& config) {
  check(config.kind != Config::DeviceKind::cuda,
        "device.kind is cuda, but this build trains on the CPU only: set device.kind to cpu or auto");
  // More threads than CPUs take turns, and each loop waits for the last of them.
  if (config.threads > 0) set_thread_count(int(std::min<int64_t>(config.threads, available_cpus())));
  start_threads();
  return make_cpu_device();
}

std::string threads_in_words(const Config::Device& config) {
  const int threads = thread_count();
  std::string words = fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
  if (config.threads > threads) {
    words += fmt::format(" (device.threads is {}, but this process may use no more CPUs)", config.threads);
  }
  return words;
}

DType compute_type(const Config::Device& config) {
  if (config.dtype == Config::Precision::f32) return DType::f32;
  if (config.dtype == Config::Precision::bf16) return DType::bf16;
  return cpu::has_bf16() ? DType::bf16 : DType::f32;
}

}  // namespace genesis
