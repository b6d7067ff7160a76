// What CUDA's runtime lends, given back where its owner ends: also where a constructor ends by a throw.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/common/cuda.h"

namespace genesis {

class OwnStream {
 public:
  // Non-blocking: it does not wait for the legacy stream, on which nothing of ours runs.
  OwnStream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A place in a stream that the host can wait for. Until it is recorded there is nothing to wait for.
class OwnEvent {
 public:
  OwnEvent() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  ~OwnEvent() { cudaEventDestroy(event_); }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;

  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  cudaError_t wait() { return cudaEventSynchronize(event_); }

 private:
  cudaEvent_t event_ = nullptr;
};

// Page-locked memory of the host, which copies read and write while the host goes on.
class PinnedMemory {
 public:
  explicit PinnedMemory(size_t bytes) { check_cuda(cudaMallocHost(&memory_, bytes), "cudaMallocHost"); }
  ~PinnedMemory() { cudaFreeHost(memory_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  char* get() const { return static_cast<char*>(memory_); }

 private:
  void* memory_ = nullptr;
};

}  // namespace genesis
