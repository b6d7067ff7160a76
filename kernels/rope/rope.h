// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) in real arithmetic, in place on the fused
// query|key|value rows; the values are left alone. For a pair (a, b) of a head's elements, i of K/2:
//   angle = position * theta^(-2i/K)
//   a' = a cos(angle) - b sin(angle),   b' = b cos(angle) + a sin(angle)
// half-split layout (Hugging Face's Llama, "rotate_half"): the pair is (i, i + K/2); interleaved: (2i, 2i+1).
// The backward pass is the inverse rotation, applied to the gradient.
#pragma once

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

namespace genesis {

struct Rope {
  int64_t rows = 0;              // tokens
  int64_t H = 0, KV = 0, K = 0;  // query heads, key/value heads, head size (even)
  DType dtype = DType::bf16;
  bool interleaved = false;
  bool inverse = false;
  float theta = 500000.f;
  const int32_t* positions = nullptr;  // [rows], from the start of each row's document
  void* qkv = nullptr;                 // [rows, (H + 2 KV) K]: queries, keys, values
};

namespace cpu {
void rope(const Rope& a);
}
namespace cuda {
void rope(const Rope& a, Stream stream);
}

}  // namespace genesis
