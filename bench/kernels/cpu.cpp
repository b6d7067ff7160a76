// The CPU device's half of bench_kernels.
#include <chrono>
#include <cstring>

#include "bench/kernels/register.h"
#include "kernels/common/parallel.h"

namespace genesis::bench {
namespace {

struct CpuDevice {
  static constexpr int64_t kLargest = int64_t(1) << 24;
  static const Memory& memory() { return kHostMemory; }
  static constexpr DType logits_type(DType) { return DType::f32; }

  static constexpr auto rmsnorm_forward = cpu::rmsnorm_forward;
  static constexpr auto rmsnorm_backward = cpu::rmsnorm_backward;
  static constexpr auto rmsnorm_backward_workspace = cpu::rmsnorm_backward_workspace;
  static constexpr auto swiglu_forward = cpu::swiglu_forward;
  static constexpr auto swiglu_backward = cpu::swiglu_backward;
  static constexpr auto embedding_forward = cpu::embedding_forward;
  static constexpr auto embedding_backward = cpu::embedding_backward;
  static constexpr auto embedding_backward_workspace = cpu::embedding_backward_workspace;
  static constexpr auto cross_entropy = cpu::cross_entropy;
  static constexpr auto rope = cpu::rope;
  static constexpr auto qk_norm_forward = cpu::qk_norm_forward;
  static constexpr auto qk_norm_backward = cpu::qk_norm_backward;
  static constexpr auto qk_norm_backward_workspace = cpu::qk_norm_backward_workspace;
  static constexpr auto attention_forward = cpu::attention_forward;
  static constexpr auto attention_backward = cpu::attention_backward;
  static constexpr auto attention_cached = cpu::attention_cached;
  static constexpr auto attention_forward_workspace = cpu::attention_forward_workspace;
  static constexpr auto attention_backward_workspace = cpu::attention_backward_workspace;
  static constexpr auto add = cpu::add;
  static constexpr auto cast = cpu::cast;
  static constexpr auto zero = cpu::zero;
  static constexpr auto grad_norm = cpu::grad_norm;
  static constexpr auto grad_norm_workspace = cpu::grad_norm_workspace;
  static constexpr auto adamw = cpu::adamw;
  static constexpr auto muon_momentum = cpu::muon_momentum;
  static constexpr auto muon_normalize = cpu::muon_normalize;
  static constexpr auto muon_polynomial = cpu::muon_polynomial;
  static constexpr auto muon_update = cpu::muon_update;
  static constexpr auto muon_momentum_workspace = cpu::muon_momentum_workspace;

  static std::function<void(const void*, const void*, void*)> matmul(const MatMulShape& shape) {
    const auto product = std::make_shared<cpu::MatMul>(shape);
    const auto scratch =
        std::make_shared<Buffer>(workspace_buffer(cpu::matmul_workspace(shape), kHostMemory));
    return
        [product, scratch](const void* a, const void* b, void* c) { (*product)(a, b, c, scratch->data()); };
  }

  static double seconds(const std::function<void()>& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  // The shortest: what else the machine does only adds to it.
  static double typical(const std::vector<double>& seconds) {
    return *std::min_element(seconds.begin(), seconds.end());
  }

  static constexpr int64_t kPieces = 256, kPiece = 1 << 19;
  static constexpr size_t kCopyBytes = kPieces * kPiece;
  static void copy(const Buffer& from, const Buffer& to) {
    parallel_for(kPieces, [&](int64_t i) {
      std::memcpy(to.as<char>() + i * kPiece, from.as<char>() + i * kPiece, kPiece);
    });
  }
  static void settle(const Buffer&) {}
  static constexpr MatMulCase large_product(DType) { return {"large", 2048, 2048, 2048, false, true}; }
};

}  // namespace

void add_cpu_kernels(const std::vector<LayerCase>& layers) { DeviceBenches<CpuDevice>::add("cpu/", layers); }

}  // namespace genesis::bench
