// The device is a GPU.
#include <vector>

#include "kernels/common/cuda.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"

namespace genesis::simt {
namespace {

// The open session's capture, if it makes one.
class Capture {
 public:
  bool open() const { return open_; }

  void begin() {
    // Relaxed: tests take and give back memory meanwhile.
    check_cuda(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed),
               "cudaStreamBeginCapture");
    open_ = true;
  }

  // Starts what was captured.
  void run() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    open_ = false;
    check_cuda(cudaStreamEndCapture(cudaStreamPerThread, &graph), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    check_cuda(cudaGraphLaunch(executable, cudaStreamPerThread), "cudaGraphLaunch");
    check_cuda(cudaStreamSynchronize(cudaStreamPerThread), "a captured graph");
    check_cuda(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
    release_later();
  }

  // Forgets what was captured since the last run.
  void drop() {
    cudaGraph_t graph = nullptr;
    open_ = false;
    cudaStreamEndCapture(cudaStreamPerThread, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();  // of a capture that a failed launch spoilt
    release_later();
  }

  // cudaFree waits for the device, which no stream may be capturing meanwhile.
  void release(void* p) {
    if (open_) {
      released_.push_back(p);
    } else {
      cudaFree(p);
    }
  }

 private:
  void release_later() {
    for (void* p : released_) cudaFree(p);
    released_.clear();
  }

  bool open_ = false;
  std::vector<void*> released_;
};

Capture capture;

}  // namespace

const Memory kDeviceMemory = {[](size_t bytes, size_t guard) {
                                void* p = nullptr;
                                check_cuda(cudaMallocManaged(&p, bytes + guard), "cudaMallocManaged");
                                return p;
                              },
                              [](void* p) { capture.release(p); }};

void finish() {
  const bool captures = capture.open();
  if (captures) capture.run();
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  if (captures) capture.begin();
}

Session::Session(const SessionOptions& options) : options_(options) {
  if (options.order != Order::forward) capture.begin();
}

Session::~Session() {
  if (capture.open()) capture.drop();
}

}  // namespace genesis::simt
