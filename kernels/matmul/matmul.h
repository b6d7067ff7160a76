// Row-major matrix product  C[M, N] (+)= op(A)[M, K] op(B)[K, N],  fp32 accumulation. A transposed operand is
// stored as its transpose, contiguous. On the CPU oneDNN computes it, on a GPU cuBLASLt.
#pragma once

#include <memory>

#include "kernels/common/dtype.h"
#include "kernels/common/error.h"
#include "kernels/common/stream.h"

namespace genesis {

struct MatMulShape {
  int64_t M = 0, N = 0, K = 0;
  bool transpose_a = false;                                 // A is stored [K, M]; c is f32 then
  bool transpose_b = false;                                 // B is stored [N, K]
  DType a = DType::bf16, b = DType::bf16, c = DType::bf16;  // A and B have one type
  bool accumulate = false;                                  // C += ; c is f32 then
  // The caller knows that C = C^T. The CPU computes its lower blocks and mirrors them; a GPU computes all of it.
  bool symmetric = false;
  // One of many small products that threads take each by itself: the CPU does not cut it into blocks to share.
  bool whole = false;
};

// Each product of two elements and its sum are two operations.
constexpr double product_flops(const MatMulShape& s) { return 2. * double(s.M) * double(s.N) * double(s.K); }

// Of memory, read and written: each matrix once, a C that is accumulated into twice.
constexpr double product_bytes(const MatMulShape& s) {
  const auto bytes = [](int64_t rows, int64_t columns, DType type) {
    return double(rows) * double(columns) * double(size_of(type));
  };
  return bytes(s.M, s.K, s.a) + bytes(s.K, s.N, s.b) + (s.accumulate ? 2 : 1) * bytes(s.M, s.N, s.c);
}

inline void require_computable(const MatMulShape& s) {
  require(s.M > 0 && s.N > 0 && s.K > 0, "matmul: a size is not positive");
  require(s.a == s.b && s.a != DType::i32 && s.c != DType::i32, "matmul: A and B have one type, f32 or bf16");
  require(!s.accumulate || s.c == DType::f32, "matmul: only an f32 C can be accumulated into");
  require(s.a == DType::bf16 || s.c == DType::f32, "matmul: f32 operands give an f32 product");
  require(!s.transpose_a || s.c == DType::f32, "matmul: a transposed A gives an f32 product");
  require(!s.symmetric || s.M == s.N, "matmul: a symmetric C is square");
  require(!(s.symmetric && s.accumulate), "matmul: a symmetric C is not accumulated into");
}

namespace cpu {

// A product of one shape, prepared once and run many times, one call at a time. The result has the same bits with
// any number of threads.
class MatMul {
 public:
  explicit MatMul(const MatMulShape& shape);
  ~MatMul();
  MatMul(MatMul&&) noexcept;
  MatMul& operator=(MatMul&&) noexcept;

  // With matmul_workspace bytes of scratch memory, 64-byte aligned.
  void operator()(const void* a, const void* b, void* c, void* workspace) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// For thread_count() threads: oneDNN's own scratch, and wide copies where the CPU does not multiply bf16.
size_t matmul_workspace(const MatMulShape& shape);

// Whether this CPU multiplies bf16 matrices in hardware (AVX512-BF16 or AMX).
bool has_bf16();

}  // namespace cpu

namespace cuda {

// cuBLASLt on the current device, which products share.
class BlasLt {
 public:
  BlasLt();  // throws Error where there is no GPU
  ~BlasLt();
  BlasLt(const BlasLt&) = delete;
  BlasLt& operator=(const BlasLt&) = delete;

  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

// Bytes of scratch memory that a product may use, 256-byte aligned: what cuBLAS takes by itself on Hopper, and
// more than it takes on others. Products on one stream can share it.
inline constexpr size_t kMatMulWorkspace = size_t(32) << 20;

// A product of one shape, prepared once and run many times: the algorithm is what cuBLASLt's heuristics put
// first, so that the same shape on the same card and library gives the same bits. Sums are fp32 throughout, also
// where a long one is split over blocks; f32 operands are not rounded to TF32.
class MatMul {
 public:
  MatMul(const MatMulShape& shape, const BlasLt& library);  // throws Error if cuBLASLt knows no algorithm
  ~MatMul();
  MatMul(MatMul&&) noexcept;
  MatMul& operator=(MatMul&&) noexcept;

  // Arrays are 16-byte aligned, in device memory.
  void operator()(const void* a, const void* b, void* c, void* workspace, Stream stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cuda

}  // namespace genesis
