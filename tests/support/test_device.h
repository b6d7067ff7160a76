// The kinds of devices that an op runs on, for tests: the CPU, and CUDA by the library that is linked, a GPU's or
// the host executor's.
#pragma once

#include <cstring>
#include <memory>

#include "engine/device/device.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"

namespace genesis {

class SimtDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cuda; }
  void* allocate(size_t bytes) override {
    simt::finish();
    void* p = simt::kDeviceMemory.allocate(bytes, 0);
    std::memset(p, 0, bytes);
    return p;
  }
  void release(void* p) override {
    simt::finish();
    simt::kDeviceMemory.release(p);
  }
  void copy_in(void* device, const void* host, size_t bytes) override { copy(device, host, bytes); }
  void copy_out(void* host, const void* device, size_t bytes) override { copy(host, device, bytes); }
  Stream stream() override { return {}; }
  size_t total_memory() const override { return size_t(1) << 34; }
  const cuda::BlasLt& blas() const override { return blas_; }

 private:
  static void copy(void* to, const void* from, size_t bytes) {
    simt::finish();
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  simt::Session session_{{.count = false}};
  cuda::BlasLt blas_;
};

struct TestDevice {
  const char* name;
  std::unique_ptr<Device> (*make)();
};

inline constexpr TestDevice kTestDevices[] = {
    {"CPU", make_cpu_device},
    {"CUDA", []() -> std::unique_ptr<Device> { return std::make_unique<SimtDevice>(); }},
};

}  // namespace genesis
