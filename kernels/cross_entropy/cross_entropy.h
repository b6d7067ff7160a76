// Cross-entropy of next-token prediction over a chunk of tokens, with the logits' gradient in the same pass:
//   loss = sum over valid rows of  lse - logits[target],   lse = log sum_v exp(logits[v])
//   plus z_loss * lse^2 (PaLM, Chowdhery et al. 2022, arXiv:2204.02311)
//   d_logits[v] = softmax[v] * (1 + 2 z_loss lse) - [v == target]
// Sums, not means: the number of valid tokens of the whole global batch divides them later, once. A row whose
// target is negative is not valid: it adds nothing and its gradient is zero.
#pragma once

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"
#include "kernels/cross_entropy/loss_sum.h"

namespace genesis {

struct CrossEntropy {
  int64_t rows = 0;
  int64_t V = 0;                    // vocabulary
  int64_t stride = 0;               // elements from row to row, >= V; columns past V are padding: they take
                                    // no part in the softmax and their gradient is zero
  DType logits_dtype = DType::f32;  // f32 or bf16
  DType d_logits_dtype = DType::bf16;  // f32 or bf16; on CUDA the logits' type
  float z_loss = 0.f;
  const void* logits = nullptr;      // [rows, stride]
  const int32_t* targets = nullptr;  // [rows], in [0, V), or negative: ignored
  void* d_logits = nullptr;          // [rows, stride], may be logits if the types agree; null: loss alone
  float* row_loss = nullptr;         // [rows]: cross-entropy without z-loss, 0 where ignored
  // Added to in row order, up to 2^24 rows: the cross-entropy's sum (z-loss excluded), the number of valid rows.
  LossSum* loss_and_count = nullptr;
  void* workspace = nullptr;  // on the CPU cross_entropy_workspace bytes; on CUDA none
};

namespace cpu {
void cross_entropy(const CrossEntropy& a);
size_t cross_entropy_workspace(int64_t V);  // for thread_count() threads: a row each
}  // namespace cpu
namespace cuda {
void cross_entropy(const CrossEntropy& a, Stream stream);
}

}  // namespace genesis
