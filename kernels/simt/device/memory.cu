// simt::Buffer and simt::Session on a GPU.
#include "kernels/common/error.h"
#include "kernels/simt/buffer.h"
#include "kernels/simt/session.h"

namespace genesis::simt {
namespace {

void ok(cudaError_t e, const char* call) {
  check(e == cudaSuccess, std::string(call) + ": " + cudaGetErrorString(e));
}

}  // namespace

void* allocate(size_t bytes, const std::string&) {
  void* p = nullptr;
  ok(cudaMalloc(&p, bytes > 0 ? bytes : 1), "cudaMalloc");
  ok(cudaMemset(p, 0xff, bytes), "cudaMemset");
  return p;
}

void release(void* device) noexcept { cudaFree(device); }

void copy_in(void* device, const void* source, size_t bytes) {
  ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  ok(cudaMemcpy(device, source, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void copy_out(void* target, const void* device, size_t bytes) {
  ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  ok(cudaMemcpy(target, device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

Session::Session(const SessionOptions& options) : options_(options) {}
Session::~Session() = default;

}  // namespace genesis::simt
