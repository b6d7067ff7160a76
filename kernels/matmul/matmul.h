// Row-major matrix product  C[M, N] (+)= op(A)[M, K] op(B)[K, N],  fp32 accumulation. A transposed operand is
// stored as its transpose, contiguous. On the CPU oneDNN computes it.
#pragma once

#include <memory>

#include "kernels/common/dtype.h"

namespace genesis {

struct MatMulShape {
  int64_t M = 0, N = 0, K = 0;
  bool transpose_a = false;      // A is stored [K, M]; c is f32 then
  bool transpose_b = false;      // B is stored [N, K]
  DType a = DType::bf16, b = DType::bf16, c = DType::bf16;  // A and B have one type
  bool accumulate = false;       // C += ; c is f32 then
};

namespace cpu {

// A product of one shape, prepared once and run many times, one call at a time (it keeps scratch memory). The
// result has the same bits with any number of threads.
class MatMul {
 public:
  explicit MatMul(const MatMulShape& shape);
  ~MatMul();
  MatMul(MatMul&&) noexcept;
  MatMul& operator=(MatMul&&) noexcept;

  void operator()(const void* a, const void* b, void* c) const;
  const MatMulShape& shape() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether this CPU multiplies bf16 matrices in hardware (AVX512-BF16 or AMX).
bool has_bf16();

}  // namespace cpu

}  // namespace genesis
