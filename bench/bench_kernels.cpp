// Measures every kernel at the shapes of training, against a large copy and a large matrix product in the
// same run.
#include <benchmark/benchmark.h>

#include "bench/kernels/kernel_benches.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  genesis::bench::register_cpu_kernels();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
