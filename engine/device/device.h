// Where arrays live and nodes run. One object a device; nothing about a device is global.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/common/error.h"
#include "kernels/common/stream.h"
#include "kernels/matmul/matmul.h"

namespace genesis {

enum class DeviceKind : uint8_t { cpu, cuda };

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  // Zeroed memory, aligned to 256 bytes. Throws Error when there is not enough.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* p) = 0;
  virtual void copy_in(void* device, const void* host, size_t bytes) = 0;  // returns when the host may change
  virtual void copy_out(void* host, const void* device, size_t bytes) = 0;  // returns when the host may read
  virtual Stream stream() = 0;
  virtual size_t total_memory() const = 0;  // bytes
  // The device's cuBLASLt, which all products share. A GPU has one, the CPU none.
  virtual const cuda::BlasLt& blas() const { throw Error("internal error: this device has no cuBLASLt"); }
};

std::unique_ptr<Device> make_cpu_device();

// Memory of a device, released with the object.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device& device, size_t bytes)
      : device_(&device), data_(device.allocate(bytes)), bytes_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_) device_->release(data_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace genesis
