// RMSNorm with the residual add fused in front (Zhang & Sennrich 2019, arXiv:1910.07467):
//   h = x + residual                  (rounded to the storage type; h = x without a residual)
//   y = h * rstd * weight,  rstd = 1 / sqrt(mean(h^2) + eps)
// All arithmetic is fp32. y is computed from the rounded h, so that normalising a kept h again gives the same
// bits. Arrays are row-major [rows, D], contiguous, 16-byte aligned; rstd is fp32 [rows].
#pragma once

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

namespace genesis {

struct RmsNormForward {
  int64_t rows = 0, D = 0;
  DType dtype = DType::bf16;  // of x, residual, weight, h and y: f32 or bf16
  float eps = 1e-5f;
  const void* x = nullptr;         // [rows, D]
  const void* residual = nullptr;  // [rows, D], or null
  const void* weight = nullptr;    // [D]
  void* h = nullptr;      // [rows, D]; null when not wanted (there is no residual); may be x or residual
  void* y = nullptr;      // [rows, D]
  float* rstd = nullptr;  // [rows], or null
};

// dh = d_residual + rstd * (g - h * rstd^2 * mean(g * h)),  g = dy * weight
// d_weight += sum over rows of dy * h * rstd
// One gradient serves both of the forward's addends.
struct RmsNormBackward {
  int64_t rows = 0, D = 0;
  DType dtype = DType::bf16;
  const void* dy = nullptr;          // [rows, D]
  const void* d_residual = nullptr;  // [rows, D], gradient that reaches h by other ways; or null
  const void* h = nullptr;           // [rows, D]
  const float* rstd = nullptr;       // [rows]
  const void* weight = nullptr;      // [D]
  void* dh = nullptr;                // [rows, D]; may be d_residual or dy
  float* d_weight = nullptr;         // fp32 [D], added to
  void* workspace = nullptr;         // rmsnorm_backward_workspace bytes
  // [rows, D], may be dy if dh is not: the forward's output computed again in the same pass, with the same bits; or
  // null
  void* y = nullptr;
};

namespace cpu {
void rmsnorm_forward(const RmsNormForward& a);
void rmsnorm_backward(const RmsNormBackward& a);
size_t rmsnorm_backward_workspace(int64_t rows, int64_t D);
}  // namespace cpu

namespace cuda {
void rmsnorm_forward(const RmsNormForward& a, Stream stream);
void rmsnorm_backward(const RmsNormBackward& a, Stream stream);
size_t rmsnorm_backward_workspace(int64_t rows, int64_t D);
}  // namespace cuda

}  // namespace genesis
