// What the two kernels of attention's backward pass share.
#pragma once

#include "kernels/attention/attention_tile_cuda.h"

namespace genesis::cuda {

constexpr int64_t query_tiles(const AttentionShape& s) { return (s.T + kTile - 1) / kTile; }

// What the first kernel leaves the second.
struct AttentionWorkspace {
  // Of each query: lse * log2(e), and the mean of d_out . value under its softmax, sum_i out_i d_out_i.
  simt::Vec<float, 2>* statistics;  // [B, H, T]
  // The first key that a query of a tile sees; written if there are positions.
  int32_t* first_keys;  // [B, query_tiles]

  AttentionWorkspace(const AttentionShape& s, void* workspace)
      : statistics(static_cast<simt::Vec<float, 2>*>(workspace)),
        first_keys(reinterpret_cast<int32_t*>(statistics + s.B * s.H * s.T)) {}
};

void attention_dq(const AttentionBackward& a, Stream stream);   // first
void attention_dkv(const AttentionBackward& a, Stream stream);  // then

inline constexpr int kStep = 32;  // rows of the other side that a step takes

}  // namespace genesis::cuda
