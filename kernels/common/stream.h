// A queue of device work. On CUDA it holds a cudaStream_t; the CPU device runs a call before it returns and
// takes no stream.
#pragma once

namespace genesis {

struct Stream {
  void* handle = nullptr;  // null: the calling thread's own stream, cudaStreamPerThread
};

}  // namespace genesis
