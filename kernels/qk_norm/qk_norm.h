// RMSNorm of every query's and key's head (Dehghani et al. 2023, arXiv:2302.05442, as Hugging Face's Qwen3 has it: a
// weight for the queries of a layer, and one for its keys), and the rotary embedding of the result, in one pass over
// the fused query|key|value rows. For a head x of K elements, w the weight of its kind:
//   rstd = 1 / sqrt(mean(x^2) + eps),   h = x * rstd * w,   rotated = h turned as in kernels/rope/rope.h
// Values are copied. All arithmetic is fp32; h is not rounded. Arrays are 16-byte aligned.
#pragma once

#include <cstddef>

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

namespace genesis {

struct QkNormShape {
  int64_t rows = 0;              // tokens
  int64_t H = 0, KV = 0, K = 0;  // query heads, key/value heads, head size (even)
  DType dtype = DType::bf16;
  bool interleaved = false;
  float theta = 500000.f;
  float eps = 1e-5f;

  int64_t row() const { return (H + 2 * KV) * K; }  // elements
};

struct QkNormForward {
  QkNormShape shape;
  const int32_t* positions = nullptr;  // [rows]
  const void* qkv = nullptr;           // [rows, (H + 2 KV) K]
  const void* q_weight = nullptr;      // [K]
  const void* k_weight = nullptr;      // [K]
  void* rotated = nullptr;             // [rows, (H + 2 KV) K]
};

// With g the gradient of a head's `rotated`, turned back:
//   dx = rstd * (g * w - x * rstd^2 * mean(g * w * x)),   dw += sum of g * x * rstd
struct QkNormBackward {
  QkNormShape shape;
  const int32_t* positions = nullptr;
  const void* qkv = nullptr;
  const void* q_weight = nullptr;
  const void* k_weight = nullptr;
  void* d_qkv =
      nullptr;  // [rows, (H + 2 KV) K]: of `rotated`, and then of qkv; the values' part is left alone
  float* d_q_weight = nullptr;  // [K], added to
  float* d_k_weight = nullptr;  // [K], added to
  void* workspace = nullptr;    // qk_norm_backward_workspace bytes
};

namespace cpu {
void qk_norm_forward(const QkNormForward& a);
void qk_norm_backward(const QkNormBackward& a);
size_t qk_norm_backward_workspace(int64_t rows, int64_t K);
}  // namespace cpu
namespace cuda {
void qk_norm_forward(const QkNormForward& a, Stream stream);
void qk_norm_backward(const QkNormBackward& a, Stream stream);
size_t qk_norm_backward_workspace(int64_t rows, int64_t K);
}  // namespace cuda

}  // namespace genesis
