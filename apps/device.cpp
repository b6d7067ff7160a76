#include "apps/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/common/available_cpus.h"
#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
#include "kernels/matmul/matmul.h"

namespace genesis {

namespace {

// More threads than CPUs take turns, and each loop waits for the last of them.
void set_threads(const Config::Device& config) {
  if (config.threads > 0) set_thread_count(int(std::min<int64_t>(config.threads, available_cpus())));
  start_threads();
}

}  // namespace

std::unique_ptr<Device> open_device(const Config::Device& config) {
  set_threads(config);  // the host has work of its own beside a GPU
  if (config.kind == Config::DeviceKind::cpu) return make_cpu_device();
  const std::string why = why_no_cuda_device();
  if (why.empty()) return make_cuda_device({.graphs = config.graphs});
  check(config.kind == Config::DeviceKind::automatic,
        "device.kind is cuda, but " + why + "; with device.kind: cpu it runs on the CPU");
  return make_cpu_device();
}

std::unique_ptr<Device> open_device_or_cpu(const Config::Device& config) {
  Config::Device here = config;
  if (here.kind == Config::DeviceKind::cuda) here.kind = Config::DeviceKind::automatic;
  return open_device(here);
}

std::string in_words(const Device& device, const Config::Device& config) {
  if (device.kind() == DeviceKind::cuda) return device.name();
  const int threads = thread_count();
  std::string words = fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
  if (config.threads > threads) {
    words += fmt::format(" (device.threads is {}, but this process may use no more CPUs)", config.threads);
  }
  return words;
}

DType compute_type(const Config::Device& config, DeviceKind kind) {
  if (config.dtype == Config::Precision::f32) return DType::f32;
  if (config.dtype == Config::Precision::bf16) return DType::bf16;
  return kind == DeviceKind::cuda || cpu::has_bf16() ? DType::bf16 : DType::f32;
}

}  // namespace genesis
