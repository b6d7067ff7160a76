#include "apps/device.h"

#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
#include "kernels/matmul/matmul.h"

namespace genesis {

std::unique_ptr<Device> open_device(const Config::Device& config) {
  check(config.kind != Config::DeviceKind::cuda,
        "device.kind is cuda, but this build trains on the CPU only: set device.kind to cpu or auto");
  if (config.threads > 0) set_thread_count(int(config.threads));
  return make_cpu_device();
}

DType compute_type(const Config::Device& config) {
  if (config.dtype == Config::Precision::f32) return DType::f32;
  if (config.dtype == Config::Precision::bf16) return DType::bf16;
  return cpu::has_bf16() ? DType::bf16 : DType::f32;
}

}  // namespace genesis
