// What host code needs of the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/common/error.h"
#include "kernels/common/stream.h"

namespace genesis {

// Throws Error("<call> <of>: <what CUDA says>") unless e is success.
inline void check_cuda(cudaError_t e, const char* call, const char* of = "") {
  if (e == cudaSuccess) return;
  throw Error(std::string(call) + (*of ? " " : "") + of + ": " + cudaGetErrorString(e));
}

inline cudaStream_t cuda_stream(Stream s) {
  return s.handle ? static_cast<cudaStream_t>(s.handle) : cudaStreamPerThread;
}

}  // namespace genesis
