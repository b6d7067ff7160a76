// The CUDA device's half of bench_kernels. Calls are timed by events, each after a pass over more memory than
// the L2 cache holds. Arrays, those of the copy and the product that they are compared with too, are managed memory,
// which is on the GPU after the first call.
#include "kernels/common/cuda.h"

#include "bench/kernels/cuda/read.h"
#include "bench/kernels/register.h"
#include "kernels/simt/device.h"

namespace genesis::bench {
namespace {

// Plain device memory.
class DeviceArray {
 public:
  explicit DeviceArray(size_t bytes) : bytes_(bytes) {
    check_cuda(cudaMalloc(&data_, bytes), "cudaMalloc");
    fill(1);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void fill(int byte) const {
    check_cuda(cudaMemsetAsync(data_, byte, bytes_, cudaStreamPerThread), "cudaMemsetAsync");
  }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  void* data_ = nullptr;
};

class Timer {
 public:
  Timer() : flushed_(4 * size_t(attribute(cudaDevAttrL2CacheSize))) {
    for (cudaEvent_t* e : {&begin_, &end_}) check_cuda(cudaEventCreate(e), "cudaEventCreate");
  }

  // The flush is still running when the call's kernels are queued, so that no launch is waited for.
  double seconds(const std::function<void()>& call) const {
    read_all(flushed_.data(), flushed_.bytes(), {});
    check_cuda(cudaEventRecord(begin_, cudaStreamPerThread), "cudaEventRecord");
    call();
    check_cuda(cudaEventRecord(end_, cudaStreamPerThread), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds * 1e-3;
  }

 private:
  static int attribute(cudaDeviceAttr what) {
    int device = 0, value = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    check_cuda(cudaDeviceGetAttribute(&value, what, device), "cudaDeviceGetAttribute");
    return value;
  }

  DeviceArray flushed_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

template <auto launcher>
constexpr auto on_own_stream = [](const auto& arguments) { launcher(arguments, Stream{}); };

struct CudaDevice {
  static constexpr int64_t kLargest = int64_t(1) << 31;
  static const Memory& memory() { return simt::kDeviceMemory; }
  static constexpr DType logits_type(DType gradient) { return gradient; }

  static constexpr auto rmsnorm_forward = on_own_stream<cuda::rmsnorm_forward>;
  static constexpr auto rmsnorm_backward = on_own_stream<cuda::rmsnorm_backward>;
  static constexpr auto rmsnorm_backward_workspace = cuda::rmsnorm_backward_workspace;
  static constexpr auto swiglu_forward = on_own_stream<cuda::swiglu_forward>;
  static constexpr auto swiglu_backward = on_own_stream<cuda::swiglu_backward>;
  static constexpr auto embedding_forward = on_own_stream<cuda::embedding_forward>;
  static constexpr auto embedding_backward = on_own_stream<cuda::embedding_backward>;
  static constexpr auto embedding_backward_workspace = cuda::embedding_backward_workspace;
  static constexpr auto cross_entropy = on_own_stream<cuda::cross_entropy>;
  static constexpr auto rope = on_own_stream<cuda::rope>;
  static constexpr auto qk_norm_forward = on_own_stream<cuda::qk_norm_forward>;
  static constexpr auto qk_norm_backward = on_own_stream<cuda::qk_norm_backward>;
  static constexpr auto qk_norm_backward_workspace = cuda::qk_norm_backward_workspace;
  static constexpr auto attention_forward = on_own_stream<cuda::attention_forward>;
  static constexpr auto attention_backward = on_own_stream<cuda::attention_backward>;
  static constexpr auto attention_cached = on_own_stream<cuda::attention_cached>;
  static constexpr auto attention_forward_workspace = cuda::attention_forward_workspace;
  static constexpr auto attention_backward_workspace = cuda::attention_backward_workspace;
  static constexpr auto add = on_own_stream<cuda::add>;
  static constexpr auto cast = on_own_stream<cuda::cast>;
  static constexpr auto zero = on_own_stream<cuda::zero>;
  static constexpr auto grad_norm = on_own_stream<cuda::grad_norm>;
  static constexpr auto grad_norm_workspace = cuda::grad_norm_workspace;
  static constexpr auto adamw = on_own_stream<cuda::adamw>;
  static constexpr auto muon_momentum = on_own_stream<cuda::muon_momentum>;
  static constexpr auto muon_normalize = on_own_stream<cuda::muon_normalize>;
  static constexpr auto muon_polynomial = on_own_stream<cuda::muon_polynomial>;
  static constexpr auto muon_update = on_own_stream<cuda::muon_update>;
  static constexpr auto muon_momentum_workspace = cuda::muon_momentum_workspace;

  static std::function<void(const void*, const void*, void*)> matmul(const MatMulShape& shape) {
    static const cuda::BlasLt library;
    static const DeviceArray workspace(cuda::kMatMulWorkspace);
    const auto product = std::make_shared<cuda::MatMul>(shape, library);
    return [product](const void* a, const void* b, void* c) { (*product)(a, b, c, workspace.data(), {}); };
  }

  static double seconds(const std::function<void()>& call) {
    static const Timer timer;
    return timer.seconds(call);
  }
  // The median.
  static double typical(std::vector<double> seconds) {
    const auto middle = seconds.begin() + std::ptrdiff_t(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

  static constexpr size_t kCopyBytes = size_t(1) << 30;
  static void copy(const Buffer& from, const Buffer& to) {
    check_cuda(
        cudaMemcpyAsync(to.data(), from.data(), kCopyBytes, cudaMemcpyDeviceToDevice, cudaStreamPerThread),
        "cudaMemcpyAsync");
  }
  // A copy reads managed memory where it is; a kernel has it moved to the GPU.
  static void settle(const Buffer& b) { read_all(b.data(), size_t(b.size()) * size_of(b.dtype()), {}); }
  static constexpr MatMulCase large_product(DType dtype) {
    const int64_t n = dtype == DType::bf16 ? 8192 : 4096;
    return {"large", n, n, n, false, true};
  }
};

}  // namespace

std::string add_cuda_kernels(const std::vector<LayerCase>& layers) {
  int devices = 0;
  const cudaError_t e = cudaGetDeviceCount(&devices);
  if (e != cudaSuccess) return cudaGetErrorString(e);
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  benchmark::AddCustomContext("gpu", properties.name);
  DeviceBenches<CudaDevice>::add("cuda/", layers);
  return "";
}

}  // namespace genesis::bench
