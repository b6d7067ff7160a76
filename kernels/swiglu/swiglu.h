// SwiGLU (Shazeer 2020, arXiv:2002.05202) on the fused gate|up product:
//   y = silu(gate) * up,  silu(g) = g * sigmoid(g)
// With a clamp c > 0: gate is limited to at most c and up to [-c, c] first, and no gradient passes a limit that
// was reached.
#pragma once

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

namespace genesis {

struct SwiGluForward {
  int64_t rows = 0, F = 0;
  DType dtype = DType::bf16;
  float clamp = 0.f;              // 0: none
  const void* gate_up = nullptr;  // [rows, 2F]: gate, up
  void* y = nullptr;              // [rows, F]
};

struct SwiGluBackward {
  int64_t rows = 0, F = 0;
  DType dtype = DType::bf16;
  float clamp = 0.f;
  const void* dy = nullptr;       // [rows, F]
  const void* gate_up = nullptr;  // [rows, 2F]
  void* d_gate_up = nullptr;      // [rows, 2F]; may be gate_up
  // [rows, F], may be dy: the forward's output computed again in the same pass, with the same bits; or null
  void* y = nullptr;
};

namespace cpu {
void swiglu_forward(const SwiGluForward& a);
void swiglu_backward(const SwiGluBackward& a);
}  // namespace cpu
namespace cuda {
void swiglu_forward(const SwiGluForward& a, Stream stream);
void swiglu_backward(const SwiGluBackward& a, Stream stream);
}  // namespace cuda

}  // namespace genesis
