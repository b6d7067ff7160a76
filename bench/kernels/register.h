// Runs the list of kernel_benches.h on one device under Google Benchmark.
#pragma once

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>

#include "bench/kernels/kernel_benches.h"

namespace genesis::bench {

// The counter that a baseline holds: what a kernel reaches, as a fraction of what a large copy or, where
// matrix products bound it, a large product of its type reaches in the same run. Above 1 where a cache helps.
inline constexpr const char* kOfRoof = "of_roof";

// A call is timed for so long, but at least and at most so often.
inline constexpr double kSecondsABench = 0.2;
inline constexpr size_t kFewestCalls = 5, kMostCalls = 1000;

// Beyond what KernelBenches asks of it, Device has
//   double seconds(call)             how long a call takes, once
//   double typical(vector<double>)   the time that stands for several calls
//   kCopyBytes                       of a copy that no cache holds
//   copy(from, to)                   starts one between two Buffers of so many bytes
//   settle(Buffer)                   brings an array to where a kernel that has used it would have
//   MatMulCase large_product(DType)  a large matrix product
template <class Device>
class DeviceBenches {
 public:
  static void add(const std::string& prefix, const std::vector<LayerCase>& layers) {
    for (auto& bench : KernelBenches<Device>().all(layers)) {
      // One iteration of Google Benchmark's: it would give the fastest kernels thousands, each with a flush.
      benchmark::RegisterBenchmark((prefix + bench.name).c_str(),
                                   [bench, name = prefix + bench.name](benchmark::State& state) {
                                     // One that fails does not take the others' results with it.
                                     try {
                                       run(state, bench);
                                     } catch (const std::exception& e) {
                                       fmt::print(stderr, "{}: {}\n", name, e.what());
                                       state.SkipWithError(e.what());
                                     }
                                   })
          ->UseManualTime()
          ->Iterations(1);
    }
  }

 private:
  static void run(benchmark::State& state, const KernelBench& bench) {
    const Prepared kernel = bench.prepare();
    const bool product = kernel.flops > 0;
    double seconds = 0;
    for (auto _ : state) {
      seconds = time_of(kernel.call);
      state.SetIterationTime(seconds);
    }
    const double reached = (product ? kernel.flops : kernel.bytes) / seconds;
    state.counters[product ? "FLOP/s" : "bytes/s"] = reached;
    state.counters[kOfRoof] = reached / (product ? product_roof(bench.dtype) : copy_roof());
    if (kernel.tokens > 0) state.counters["tokens/s"] = kernel.tokens / seconds;
  }

  // Of one call, after one that is not counted.
  static double time_of(const std::function<void()>& call) {
    using Clock = std::chrono::steady_clock;
    call();
    std::vector<double> seconds;
    const auto end = Clock::now() + std::chrono::duration<double>(kSecondsABench);
    while (seconds.size() < kFewestCalls || (seconds.size() < kMostCalls && Clock::now() < end)) {
      seconds.push_back(Device::seconds(call));
    }
    return Device::typical(seconds);
  }
  // Of the memory that the kernels' arrays are in, as all that is compared with it.
  static double copy_roof() {
    static const double measured = [] {
      const Buffer from = workspace_buffer(Device::kCopyBytes, Device::memory()),
                   to = workspace_buffer(Device::kCopyBytes, Device::memory());
      Device::settle(from);
      Device::settle(to);
      return 2. * double(Device::kCopyBytes) / time_of([&] { Device::copy(from, to); });
    }();
    return measured;
  }
  static double product_roof(DType dtype) {
    static const double f32 = large_product(DType::f32), bf16 = large_product(DType::bf16);
    return dtype == DType::f32 ? f32 : bf16;
  }
  static double large_product(DType dtype) {
    const MatMulProblem p(Device::large_product(dtype), dtype, dtype, Device::memory());
    const auto product = Device::matmul(p.shape);
    return p.flops() / time_of([&] { product(p.a.data(), p.b.data(), p.c.data()); });
  }
};

void add_cpu_kernels(const std::vector<LayerCase>& layers);  // cpu.cpp
// Returns why there are none: no GPU, a driver that is too old, a build without CUDA. Empty: they are added.
std::string add_cuda_kernels(const std::vector<LayerCase>& layers);  // cuda/cuda.cpp

}  // namespace genesis::bench
