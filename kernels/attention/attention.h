// Causal grouped-query attention without a T x T matrix in memory, flash style (Dao 2023, arXiv:2307.08691).
// Query head h reads key/value head h / (H / KV). For row t of a sequence, in document order:
//   out[t] = sum_s softmax_s(scale * q[t].k[s]) v[s],   first(t) <= s <= t
// where first(t) = t - positions[t]: attention stays inside a packed document; without positions first(t) = 0.
// lse is the logarithm of the softmax's denominator: log sum_s exp(scale * q[t].k[s]).
#pragma once

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

namespace genesis {

struct AttentionShape {
  int64_t B = 0, T = 0;          // sequences, tokens in each; any T >= 1
  int64_t H = 0, KV = 0, K = 0;  // H a multiple of KV; K a multiple of 8, up to 256
  DType dtype = DType::bf16;
  float scale = 0.f;  // 1 / sqrt(K), as a rule
};

struct AttentionForward {
  AttentionShape shape;
  const void* qkv = nullptr;           // [B, T, (H + 2 KV) K]: queries, keys, values
  const int32_t* positions = nullptr;  // [B, T], 0 <= positions[t] <= t; or null: one document a sequence
  void* out = nullptr;                 // [B, T, H K]
  float* lse = nullptr;                // [B, H, T]
  void* workspace = nullptr;           // attention_forward_workspace bytes, 64-byte aligned
};

struct AttentionBackward {
  AttentionShape shape;
  const void* qkv = nullptr;
  const int32_t* positions = nullptr;
  const void* out = nullptr;
  const float* lse = nullptr;
  const void* d_out = nullptr;  // [B, T, H K]
  void* d_qkv = nullptr;        // [B, T, (H + 2 KV) K], every element written
  void* workspace = nullptr;    // attention_backward_workspace bytes, 64-byte aligned
};

// One step of generation for several sequences at once, each with a slot of the cache: n tokens (rows of qkv, rotated
// already), each of some sequence and at some position of it. All of them go into the cache, and then each attends to
// its sequence up to itself. A step may hold any number of a sequence's tokens, in any order, none of them twice.
// A row's output depends on its own sequence alone, bit for bit.
struct AttentionCached {
  int64_t n = 0, slots = 0, T_max = 0;  // tokens; sequences that the cache holds, and rows for each
  int64_t H = 0, KV = 0, K = 0;
  DType dtype = DType::bf16;
  float scale = 0.f;
  const int32_t* slot = nullptr;  // [n], below slots; negative: the row is no token, and its output is zero
  const int32_t* positions = nullptr;  // [n], in [0, T_max)
  const void* qkv = nullptr;           // [n, (H + 2 KV) K]
  void* k_cache = nullptr;             // [slots, T_max, KV, K]
  void* v_cache = nullptr;             // [slots, T_max, KV, K]
  void* out = nullptr;                 // [n, H K]
};

namespace cpu {
void attention_forward(const AttentionForward& a);
void attention_backward(const AttentionBackward& a);
void attention_cached(const AttentionCached& a);
// For thread_count() threads: a share each. The results do not depend on how many there are.
size_t attention_forward_workspace(const AttentionShape& s);
size_t attention_backward_workspace(const AttentionShape& s);
}  // namespace cpu
namespace cuda {
void attention_forward(const AttentionForward& a, Stream stream);
void attention_backward(const AttentionBackward& a, Stream stream);
void attention_cached(const AttentionCached& a, Stream stream);  // slots and positions are not checked
size_t attention_forward_workspace(const AttentionShape& s);
size_t attention_backward_workspace(const AttentionShape& s);
}  // namespace cuda

}  // namespace genesis
