// Runs the list of kernel_benches.h on one device under Google Benchmark.
#pragma once

#include <benchmark/benchmark.h>

#include "bench/kernels/kernel_benches.h"

namespace genesis::bench {

// The counter that a baseline holds: what a kernel reaches, as a fraction of what a large copy or, where
// matrix products bound it, a large product of its type reaches in the same run. Above 1 where a cache helps.
inline constexpr const char* kOfRoof = "of_roof";

// Beyond what KernelBenches asks of it, Device has
//   double seconds(call)             how long a call takes, once
//   double typical(vector<double>)   the time that stands for several calls
//   Prepared copy()                  a large copy
//   MatMulCase large_product(DType)  a large matrix product
template <class Device>
class DeviceBenches {
 public:
  static void add(const std::string& prefix) {
    for (auto& bench : KernelBenches<Device>().all()) {
      benchmark::RegisterBenchmark((prefix + bench.name).c_str(), [bench](benchmark::State& state) {
        run(state, bench);
      })->UseManualTime();
    }
  }

 private:
  static void run(benchmark::State& state, const KernelBench& bench) {
    const Prepared& kernel = prepared(bench);
    const bool product = kernel.flops > 0;
    kernel.call();
    std::vector<double> seconds;
    for (auto _ : state) {
      seconds.push_back(Device::seconds(kernel.call));
      state.SetIterationTime(seconds.back());
    }
    const double reached = rate(kernel, seconds);
    state.counters[product ? "FLOP/s" : "bytes/s"] = reached;
    state.counters[kOfRoof] = reached / (product ? product_roof(bench.dtype) : copy_roof());
    if (kernel.tokens > 0) state.counters["tokens/s"] = kernel.tokens / Device::typical(seconds);
  }

  // Google Benchmark asks for a benchmark several times in a row, with more and more iterations: its arrays
  // are made once, and given back before the next one's.
  static const Prepared& prepared(const KernelBench& bench) {
    static std::string name;
    static Prepared kernel;
    if (name != bench.name) {
      kernel = {};
      kernel = bench.prepare();
      name = bench.name;
    }
    return kernel;
  }

  static double rate(const Prepared& p, const std::vector<double>& seconds) {
    return (p.flops > 0 ? p.flops : p.bytes) / Device::typical(seconds);
  }
  static double roof(const Prepared& p) {
    std::vector<double> seconds;
    for (int i = 0; i < 20; ++i) seconds.push_back(Device::seconds(p.call));
    return rate(p, seconds);
  }
  static double copy_roof() {
    static const double measured = roof(Device::copy());
    return measured;
  }
  static double product_roof(DType dtype) {
    static const double f32 = roof(large_product(DType::f32)), bf16 = roof(large_product(DType::bf16));
    return dtype == DType::f32 ? f32 : bf16;
  }
  static Prepared large_product(DType dtype) {
    const auto p =
        std::make_shared<MatMulProblem>(Device::large_product(dtype), dtype, dtype, Device::memory());
    const auto product = Device::matmul(p->shape);
    return {[p, product] { product(p->a.data(), p->b.data(), p->c.data()); }, 0, p->flops()};
  }
};

void add_cpu_kernels();   // cpu.cpp
bool add_cuda_kernels();  // cuda/cuda.cpp; false where there is no GPU, or the build has no CUDA

}  // namespace genesis::bench
