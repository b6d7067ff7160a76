// The matrix product's cases: what tests and benchmarks run it on.
#pragma once

#include "kernels/common/cases.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_ref.h"

namespace genesis {

struct MatMulCase {
  const char* name;
  int64_t M, N, K;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  bool symmetric = false;  // B is A, and one of them transposed
  bool whole = false;
};

inline constexpr MatMulCase kMatMulCases[] = {
    {"one element", 1, 1, 1},
    {"one token", 1, 96, 64, false, true},
    {"odd sizes", 7, 13, 5},
    {"odd sizes, A transposed", 7, 13, 5, true, false},
    {"odd sizes, both transposed", 7, 13, 5, true, true, true},
    {"forward of a layer", 100, 136, 72, false, true},
    {"input gradient", 100, 72, 136},
    {"weight gradient", 136, 72, 100, true, false, true},
    {"weight gradient, many tokens", 24, 40, 2500, true, false, true},
    {"weight gradient, first micro-step", 24, 40, 2500, true, false},
    {"weight gradient, both transposed, many tokens", 24, 40, 2100, true, true, true},
    {"long sum", 3, 5, 6000, false, true},
    {"several blocks", 300, 530, 24, false, true},
    {"several blocks, accumulated", 530, 600, 24, false, false, true},
    {"several blocks, taken whole", 300, 530, 24, false, true, false, false, true},
    {"symmetric, one block", 40, 40, 24, false, true, false, true},
    {"symmetric, several blocks", 300, 300, 24, false, true, false, true},
    {"symmetric, A transposed", 300, 300, 40, true, false, false, true, true},
    {"A transposed, its rows 4 KB apart", 1024, 40, 24, true, false, true},
};

// The products of one layer's linear maps at D = 320, F = 864, and of the vocabulary's, 2,048 tokens; those
// of genesis_1b, a micro-batch of 8,192, and half of it for the vocabulary's.
inline constexpr MatMulCase kMatMulBenchCases[] = {
    {"qkv", 2048, 640, 320, false, true},
    {"qkv, dx", 2048, 320, 640},
    {"qkv, dw", 640, 320, 2048, true, false, true},
    {"gate_up", 2048, 1728, 320, false, true},
    {"gate_up, dx", 2048, 320, 1728},
    {"gate_up, dw", 1728, 320, 2048, true, false, true},
    {"logits", 2048, 4096, 320, false, true},
    {"logits, dx", 2048, 320, 4096},
    {"logits, dw", 4096, 320, 2048, true, false, true},
    {"genesis_1b qkv", 8192, 3072, 1536, false, true},
    {"genesis_1b qkv, dx", 8192, 1536, 3072},
    {"genesis_1b qkv, dw", 3072, 1536, 8192, true, false, true},
    {"genesis_1b out", 8192, 1536, 1536, false, true},
    {"genesis_1b gate_up", 8192, 9472, 1536, false, true},
    {"genesis_1b gate_up, dx", 8192, 1536, 9472},
    {"genesis_1b gate_up, dw", 9472, 1536, 8192, true, false, true},
    {"genesis_1b down", 8192, 1536, 4736, false, true},
    {"genesis_1b down, dx", 8192, 4736, 1536},
    {"genesis_1b down, dw", 1536, 4736, 8192, true, false, true},
    {"genesis_1b logits", 4096, 49152, 1536, false, true},
    {"genesis_1b logits, dx", 4096, 1536, 49152},
    {"genesis_1b logits, dw", 49152, 1536, 4096, true, false, true},
};

// One case's arrays. `out` is the type of C; a transposed A gives f32 alone.
struct MatMulProblem {
  MatMulShape shape;
  Buffer a, b, c, workspace;  // the workspace is the CPU's, for thread_count() threads

  MatMulProblem(const MatMulCase& k, DType in, DType out, const Memory& memory = kHostMemory)
      : shape{k.M, k.N, k.K, k.transpose_a, k.transpose_b, in, in, out, k.accumulate, k.symmetric, k.whole},
        a(in, k.M * k.K, memory),
        b(in, k.K * k.N, memory),
        c(out, k.M * k.N, memory),
        workspace(workspace_buffer(cpu::matmul_workspace(shape), kHostMemory)) {
    a.fill_normal(1, 0);
    b.fill_normal(1, k.symmetric ? 0 : 1);
    if (k.accumulate) c.fill_normal(1, 2);
  }

  static bool takes(const MatMulCase& k, DType in, DType out) {
    return out == DType::f32 || (in == DType::bf16 && !k.accumulate && !k.transpose_a);
  }
  double flops() const { return product_flops(shape); }
};

// Call before the product: the reference needs C as it was.
inline Result matmul_result(const MatMulProblem& p) {
  const auto a = p.a.to_double(), b = p.b.to_double();
  auto expected = p.c.to_double();
  // The largest sum of the sizes of what is added up for an element.
  const auto size = [](std::vector<double> v) {
    for (double& x : v) x = std::abs(x);
    return v;
  };
  auto magnitude = size(expected);
  ref::matmul(p.shape, size(a).data(), size(b).data(), magnitude.data());
  ref::matmul(p.shape, a.data(), b.data(), expected.data());
  return {"c", &p.c, std::move(expected), rounding_tolerance(p.shape.c, largest(magnitude), p.shape.K)};
}

}  // namespace genesis
