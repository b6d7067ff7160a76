// The GPU: one stream for all compute, whose order is the graph's.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/device/cuda_owned.h"
#include "engine/device/device.h"
#include "kernels/common/cuda.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

constexpr double kMiB = 1 << 20;

// Pinned memory through which copies to the device go, piece by piece: the host goes on once its bytes are in a slot,
// and waits only for a slot that a copy still reads. Ends after its stream, and so after its copies.
class Ring {
 public:
  void copy_in(char* device, const char* host, size_t bytes, cudaStream_t stream) {
    for (size_t done = 0; done < bytes; done += kSlotBytes) {
      const size_t piece = std::min(kSlotBytes, bytes - done);
      char* slot = memory_.get() + next_ * kSlotBytes;
      check_cuda(read_[next_].wait(), "cudaEventSynchronize");
      std::memcpy(slot, host + done, piece);
      check_cuda(cudaMemcpyAsync(device + done, slot, piece, cudaMemcpyHostToDevice, stream),
                 "cudaMemcpyAsync");
      read_[next_].record(stream);
      next_ = (next_ + 1) % kSlots;
    }
  }

 private:
  // A micro-batch's tokens, targets and positions take a slot each: the host may be 21 micro-steps ahead.
  static constexpr size_t kSlots = 64, kSlotBytes = size_t(256) << 10;
  PinnedMemory memory_{kSlots * kSlotBytes};
  std::array<OwnEvent, kSlots> read_;  // recorded behind the copy that reads the slot
  size_t next_ = 0;
};

// A copy to pinned memory, which is waited for by an event behind it.
class PinnedCopy final : public QueuedCopy {
 public:
  using Check = std::function<void(cudaError_t)>;  // of a wait: throws for what failed before
  PinnedCopy(size_t bytes, cudaStream_t stream, Check check)
      : bytes_(bytes), stream_(stream), check_(std::move(check)), memory_(bytes) {}
  ~PinnedCopy() override { there_.wait(); }  // the copy writes to the memory
  void begin(const void* device) override {
    check_cuda(cudaMemcpyAsync(memory_.get(), device, bytes_, cudaMemcpyDeviceToHost, stream_),
               "cudaMemcpyAsync");
    there_.record(stream_);
  }
  const void* wait() override {
    check_(there_.wait());
    return memory_.get();
  }

 private:
  const size_t bytes_;
  cudaStream_t stream_;
  Check check_;
  PinnedMemory memory_;
  OwnEvent there_;
};

// A graph of CUDA's, started on the stream that it was recorded on.
class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    check_cuda(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  void launch() override { check_cuda(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t executable_ = nullptr;
  cudaStream_t stream_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaOptions& options) : options_(options) {
    check_cuda(cudaGetDeviceProperties(&properties_, 0), "cudaGetDeviceProperties");
    check(properties_.major >= 8,
          fmt::format("{} has compute capability {}.{}, and 8.0 is the least that can be trained on",
                      properties_.name, properties_.major, properties_.minor));
  }
  // What is still under way reads slots and arrays.
  ~CudaDevice() override { cudaStreamSynchronize(stream_.get()); }

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override { return properties_.name; }

  void* allocate(size_t bytes) override {
    void* p = nullptr;
    const cudaError_t e = cudaMalloc(&p, bytes);
    if (e == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is told here, and not by the next call too
      throw Error(not_enough(bytes));
    }
    check_cuda(e, "cudaMalloc");
    check_cuda(cudaMemsetAsync(p, 0, bytes, stream_.get()), "cudaMemsetAsync");
    return p;
  }
  // Waits for the stream, which may still use it.
  void release(void* p) override { cudaFree(p); }

  void copy_in(void* device, const void* host, size_t bytes) override {
    ring_.copy_in(static_cast<char*>(device), static_cast<const char*>(host), bytes, stream_.get());
  }
  void copy_out(void* host, const void* device, size_t bytes) override {
    check_cuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_.get()),
               "cudaMemcpyAsync");
    wait();
  }

  std::unique_ptr<QueuedCopy> make_queued_copy(size_t bytes) override {
    return std::make_unique<PinnedCopy>(bytes, stream_.get(), [this](cudaError_t e) { check_work(e); });
  }

  void wait() override {
    check_work(cudaStreamSynchronize(stream_.get()));
    under_way_.clear();
  }
  Stream stream() override { return {stream_.get()}; }
  void begin_work(const char* name) override {
    if (std::find(under_way_.begin(), under_way_.end(), name) == under_way_.end()) {
      under_way_.push_back(name);
    }
  }
  bool records() const override { return options_.graphs; }
  // Of this thread's calls alone: others may do as they like meanwhile.
  void begin_recording() override {
    check_cuda(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
  }
  std::unique_ptr<DeviceGraph> end_recording() override {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream_.get(), &graph), "cudaStreamEndCapture");
    const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, cudaError_t (*)(cudaGraph_t)> owned(
        graph, cudaGraphDestroy);
    return std::make_unique<CudaGraph>(graph, stream_.get());
  }

  size_t total_memory() const override { return properties_.totalGlobalMem; }
  const cuda::BlasLt& blas() const override { return blas_; }

 private:
  // Of a call that has waited.
  void check_work(cudaError_t e) const {
    check(e == cudaSuccess,
          fmt::format("{} failed in what was queued since the host last waited for it ({}): {}",
                      properties_.name, fmt::join(under_way_, ", "), cudaGetErrorString(e)));
  }
  std::string not_enough(size_t bytes) const {
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return fmt::format("not enough memory: {:.1f} MiB wanted in one piece, {} has {:.1f} MiB free of {:.1f}",
                       double(bytes) / kMiB, properties_.name, double(free) / kMiB, double(total) / kMiB);
  }

  const CudaOptions options_;
  cudaDeviceProp properties_ = {};
  Ring ring_;
  OwnStream stream_;
  std::vector<const char*> under_way_;  // what was begun since the host last waited, each once
  cuda::BlasLt blas_;
};

}  // namespace

std::string why_no_cuda_device() {
  int count = 0;
  const cudaError_t e = cudaGetDeviceCount(&count);
  if (e != cudaSuccess) return std::string("no GPU can be used: ") + cudaGetErrorString(e);
  return count > 0 ? "" : "no GPU is found";
}

std::unique_ptr<Device> make_cuda_device(const CudaOptions& options) {
  const std::string why = why_no_cuda_device();
  check(why.empty(), why);
  return std::make_unique<CudaDevice>(options);
}

}  // namespace genesis
