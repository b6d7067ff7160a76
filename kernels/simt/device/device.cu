// The device is a GPU.
#include <memory>
#include <type_traits>
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

  // Starts what was captured and waits for it.
  void run() {
    cudaGraphExec_t executable = nullptr;
    const Graph graph = end();
    check_cuda(cudaGraphInstantiate(&executable, graph.get(), 0), "cudaGraphInstantiate");
    const Executable owned(executable);
    check_cuda(cudaGraphLaunch(executable, cudaStreamPerThread), "cudaGraphLaunch");
    check_cuda(cudaStreamSynchronize(cudaStreamPerThread), "a captured graph");
    free_released();
  }

  // Forgets what was captured since the last run.
  void drop() noexcept {
    try {
      if (open_) end();
    } catch (const Error&) {
      cudaGetLastError();  // of a capture that a failed launch spoilt
    }
    free_released();
  }

  // cudaFree waits for the device, which no stream may be capturing meanwhile; and what is captured may still
  // need the memory.
  void release(void* p) {
    if (open_) {
      released_.push_back(p);
    } else {
      cudaFree(p);
    }
  }

 private:
  struct Destroy {
    void operator()(cudaGraph_t g) const { cudaGraphDestroy(g); }
    void operator()(cudaGraphExec_t e) const { cudaGraphExecDestroy(e); }
  };
  using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;
  using Executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

  Graph end() {
    cudaGraph_t graph = nullptr;
    open_ = false;
    check_cuda(cudaStreamEndCapture(cudaStreamPerThread, &graph), "cudaStreamEndCapture");
    return Graph(graph);
  }
  void free_released() noexcept {
    for (void* p : released_) cudaFree(p);
    released_.clear();
  }

  bool open_ = false;
  std::vector<void*> released_;
};

Capture capture;
bool session_open = false;

// Tests read and write arrays between launches without moving them.
void* allocate_managed(size_t bytes) {
  int device = 0, concurrent = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device),
             "cudaDeviceGetAttribute");
  check(concurrent,
        "this GPU's driver does not let the host touch managed memory while a kernel runs (Windows and "
        "WSL do not): tests and benchmarks need Linux");
  void* p = nullptr;
  check_cuda(cudaMallocManaged(&p, bytes), "cudaMallocManaged");
  return p;
}

}  // namespace

const Memory kDeviceMemory = {[](size_t bytes, size_t guard) { return allocate_managed(bytes + guard); },
                              [](void* p) { capture.release(p); }};

void finish() {
  const bool captures = capture.open();
  if (captures) capture.run();
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  if (captures) capture.begin();
}

Session::Session(const SessionOptions& options) : options_(options) {
  check(!session_open, "a simt::Session is open already");
  if (options.order != Order::forward) capture.begin();
  session_open = true;
}

Session::~Session() {
  capture.drop();
  session_open = false;
}

}  // namespace genesis::simt
