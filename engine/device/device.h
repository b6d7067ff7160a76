// Where arrays live and nodes run. One object a device; nothing about a device is global.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "kernels/common/error.h"
#include "kernels/common/stream.h"
#include "kernels/matmul/matmul.h"

namespace genesis {

enum class DeviceKind : uint8_t { cpu, cuda };

// Work that was recorded once and can be started again and again, as one call. Lives no longer than its device and the
// memory that it names.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void launch() = 0;
};

// A copy of some bytes to the host, which is queued by one call and waited for by another. Lives no longer than its
// device.
class QueuedCopy {
 public:
  QueuedCopy() = default;
  QueuedCopy(const QueuedCopy&) = delete;
  QueuedCopy& operator=(const QueuedCopy&) = delete;
  virtual ~QueuedCopy() = default;
  // Queues the copy behind all work so far. What the copy before brought is gone.
  virtual void begin(const void* device) = 0;
  // What the last begin() brings, once it is there. Throws Error if it, or work before it, failed.
  virtual const void* wait() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;  // for people
  // Zeroed memory, aligned to 256 bytes. Throws Error when there is not enough.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* p) = 0;
  virtual void copy_in(void* device, const void* host, size_t bytes) = 0;  // returns when the host may change
  virtual void copy_out(void* host, const void* device, size_t bytes) = 0;  // returns when the host may read
  virtual std::unique_ptr<QueuedCopy> make_queued_copy(size_t bytes) = 0;
  virtual void wait() {}  // until all that is queued has run; throws Error if some of it failed
  virtual Stream stream() = 0;
  // Names what is queued from here on, a literal, for the message of a failure that shows only when the host waits.
  virtual void begin_work(const char*) {}
  // Whether work is worth recording here: then what is queued between the two is recorded, and nothing of it runs.
  // Copies and allocations are not to be recorded.
  virtual bool records() const { return false; }
  virtual void begin_recording() {}
  virtual std::unique_ptr<DeviceGraph> end_recording() { return nullptr; }
  virtual size_t total_memory() const = 0;  // bytes
  // The device's cuBLASLt, which all products share. A GPU has one, the CPU none.
  virtual const cuda::BlasLt& blas() const { throw Error("internal error: this device has no cuBLASLt"); }
};

std::unique_ptr<Device> make_cpu_device();

struct CudaOptions {
  bool graphs = true;  // work is recorded, as CUDA graphs
};

// The first GPU that this process sees. Throws Error, why_no_cuda_device(), where there is none.
std::unique_ptr<Device> make_cuda_device(const CudaOptions& options);
inline std::unique_ptr<Device> make_cuda_device() { return make_cuda_device(CudaOptions{}); }
std::string why_no_cuda_device();  // empty: there is one

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
