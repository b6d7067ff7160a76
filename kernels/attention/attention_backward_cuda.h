// What the two kernels of attention's backward pass share.
#pragma once

#include "kernels/attention/attention_tile_cuda.h"

namespace genesis::cuda {

// What the backward pass's kernels leave each other, backward_workspace_bytes of it.
struct AttentionWorkspace {
  // dk and dv of each part of the heads, if there are several.
  float* parts;  // [B, T, 2 KV, head_parts, K]
  // Of each query: lse * log2(e), and the mean of d_out . value under its softmax, sum_i out_i d_out_i.
  simt::Vec<float, 2>* statistics;  // [B, H, T]
  // The first key that a query of a tile sees; written if there are positions.
  int32_t* first_keys;  // [B, query_tiles]

  AttentionWorkspace(const AttentionShape& s, void* workspace)
      : parts(static_cast<float*>(workspace)),
        statistics(reinterpret_cast<simt::Vec<float, 2>*>(parts + parts_bytes(s) / 4)),
        first_keys(reinterpret_cast<int32_t*>(statistics + s.B * s.H * s.T)) {}
};

void attention_dq(const AttentionBackward& a, Stream stream);   // first
void attention_dkv(const AttentionBackward& a, Stream stream);  // then

}  // namespace genesis::cuda
