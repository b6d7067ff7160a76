// The CPU device's half of bench_kernels.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>

#include "bench/kernels/kernel_benches.h"
#include "kernels/common/parallel.h"

namespace genesis::bench {

namespace {

struct CpuDevice {
  static constexpr int64_t kLargest = int64_t(1) << 24;
  static const Memory& memory() { return kHostMemory; }

  static constexpr auto rmsnorm_forward = cpu::rmsnorm_forward;
  static constexpr auto rmsnorm_backward = cpu::rmsnorm_backward;
  static constexpr auto rmsnorm_backward_workspace = cpu::rmsnorm_backward_workspace;
  static constexpr auto swiglu_forward = cpu::swiglu_forward;
  static constexpr auto swiglu_backward = cpu::swiglu_backward;
  static constexpr auto embedding_forward = cpu::embedding_forward;
  static constexpr auto embedding_backward = cpu::embedding_backward;
  static constexpr auto embedding_backward_workspace = cpu::embedding_backward_workspace;
  static constexpr auto cross_entropy = cpu::cross_entropy;
  static constexpr auto add = cpu::add;
  static constexpr auto scale = cpu::scale;
  static constexpr auto cast = cpu::cast;
  static constexpr auto zero = cpu::zero;
  static constexpr auto grad_norm = cpu::grad_norm;
  static constexpr auto grad_norm_workspace = cpu::grad_norm_workspace;
  static constexpr auto adamw = cpu::adamw;
  static constexpr auto rope = cpu::rope;
  static constexpr auto attention_forward = cpu::attention_forward;
  static constexpr auto attention_backward = cpu::attention_backward;
  static constexpr auto attention_forward_workspace = cpu::attention_forward_workspace;
  static constexpr auto attention_backward_workspace = cpu::attention_backward_workspace;

  static std::function<void()> matmul(const MatMulProblem& p) {
    auto product = std::make_shared<cpu::MatMul>(p.shape);
    return [product, a = p.a.data(), b = p.b.data(), c = p.c.data()] { (*product)(a, b, c); };
  }
};

double best_seconds(const std::function<void()>& call) {
  double best = INFINITY;
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// Bytes read and written a second by a copy between arrays that no cache holds.
double copy_rate() {
  constexpr int64_t kPieces = 128, kPiece = 1 << 20;
  const Buffer from(DType::f32, kPieces * kPiece / 4), to(DType::f32, kPieces * kPiece / 4);
  const double seconds = best_seconds([&] {
    parallel_for(kPieces, [&](int64_t i) {
      std::memcpy(to.as<char>() + i * kPiece, from.as<char>() + i * kPiece, kPiece);
    });
  });
  return 2.0 * kPieces * kPiece / seconds;
}

// FLOP a second of a large product.
double product_rate(DType dtype) {
  const MatMulProblem p({"roof", 2048, 2048, 2048, false, true}, dtype, dtype);
  return p.flops() / best_seconds(CpuDevice::matmul(p));
}

double roof_of(const Prepared& kernel, DType dtype) {
  static const double copy = copy_rate();
  static const double products[] = {product_rate(DType::f32), product_rate(DType::bf16)};
  return kernel.flops > 0 ? products[dtype == DType::bf16] : copy;
}

void run(benchmark::State& state, const KernelBench& bench) {
  using benchmark::Counter;
  const Prepared kernel = bench.prepare();
  const double roof = roof_of(kernel, bench.dtype);
  kernel.call();
  for (auto _ : state) kernel.call();
  const double work = kernel.flops > 0 ? kernel.flops : kernel.bytes;
  state.counters[kernel.flops > 0 ? "FLOP" : "bytes"] = Counter(work, Counter::kIsIterationInvariantRate);
  state.counters[kOfRoof] = Counter(work / roof, Counter::kIsIterationInvariantRate);
}

}  // namespace

void register_cpu_kernels() {
  for (auto& bench : KernelBenches<CpuDevice>().all()) {
    benchmark::RegisterBenchmark(("cpu/" + bench.name).c_str(),
                                 [bench](benchmark::State& s) { run(s, bench); })
        ->UseRealTime()
        ->MinTime(0.1);
  }
}

}  // namespace genesis::bench
