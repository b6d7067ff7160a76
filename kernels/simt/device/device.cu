// The device is a GPU.
#include "kernels/common/error.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"

namespace genesis::simt {
namespace {

void ok(cudaError_t e, const char* call) {
  check(e == cudaSuccess, std::string(call) + ": " + cudaGetErrorString(e));
}

}  // namespace

const Memory kDeviceMemory = {[](size_t bytes, size_t guard) {
                                void* p = nullptr;
                                ok(cudaMallocManaged(&p, bytes + guard), "cudaMallocManaged");
                                return p;
                              },
                              [](void* p) { cudaFree(p); }};

void finish() { ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

Session::Session(const SessionOptions& options) : options_(options) {}
Session::~Session() = default;

}  // namespace genesis::simt
