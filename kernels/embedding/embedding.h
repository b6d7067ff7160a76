// Rows of a table by token. The backward pass adds rows of gradient to the table's fp32 gradient, deterministic
// (tokens are sorted first, no atomics): a token's rows in an order that depends on the tokens alone.
#pragma once

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

namespace genesis {

struct EmbeddingForward {
  int64_t rows = 0, V = 0, D = 0;
  DType dtype = DType::bf16;
  const int32_t* tokens = nullptr;  // [rows], in [0, V)
  const void* table = nullptr;      // [V, D]
  void* y = nullptr;                // [rows, D]
};

struct EmbeddingBackward {
  int64_t rows = 0, V = 0, D = 0;   // on CUDA, V < 524,288
  DType dtype = DType::bf16;        // of dy
  const int32_t* tokens = nullptr;  // [rows]
  const void* dy = nullptr;         // [rows, D]
  float* d_table = nullptr;         // fp32 [V, D], added to
  void* workspace = nullptr;        // embedding_backward_workspace bytes
};

namespace cpu {
void embedding_forward(const EmbeddingForward& a);
void embedding_backward(const EmbeddingBackward& a);
size_t embedding_backward_workspace(int64_t rows, int64_t V);
}  // namespace cpu
namespace cuda {
void embedding_forward(const EmbeddingForward& a, Stream stream);
void embedding_backward(const EmbeddingBackward& a, Stream stream);
size_t embedding_backward_workspace(int64_t rows, int64_t V);
}  // namespace cuda

}  // namespace genesis
