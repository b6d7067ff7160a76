// What the two kernels of attention's backward pass share.
#pragma once

#include "kernels/attention/attention_tile_cuda.h"

namespace genesis::cuda {

constexpr int64_t query_tiles(const AttentionShape& s) { return block_count(s.T, kTile); }

// The parts in which the query heads of a key head are taken, by a block each, for the gradients of keys and
// values: as many as make two blocks for every place of an RTX 4090's 128 multiprocessors. From the shape
// alone, so that a card's size changes no bit.
constexpr int64_t head_parts(const AttentionShape& s) {
  const int64_t enough = 2 * 128 * blocks_on_multiprocessor(s.K <= 64 ? 64 : 128);
  const int64_t blocks = std::max<int64_t>(s.B * s.KV * query_tiles(s), 1);
  return std::clamp<int64_t>(block_count(enough, blocks), 1, s.H / s.KV);
}

// Elements of dk and dv together.
constexpr int64_t key_value_elements(const AttentionShape& s) { return s.B * s.T * 2 * s.KV * s.K; }

// What the backward pass's kernels leave each other.
struct AttentionWorkspace {
  // dk and dv of each part of the heads, if there are several.
  float* parts;  // [B, T, 2 KV, head_parts, K]
  // Of each query: lse * log2(e), and the mean of d_out . value under its softmax, sum_i out_i d_out_i.
  simt::Vec<float, 2>* statistics;  // [B, H, T]
  // The first key that a query of a tile sees; written if there are positions.
  int32_t* first_keys;  // [B, query_tiles]

  AttentionWorkspace(const AttentionShape& s, void* workspace)
      : parts(static_cast<float*>(workspace)),
        statistics(reinterpret_cast<simt::Vec<float, 2>*>(parts + parts_elements(s))),
        first_keys(reinterpret_cast<int32_t*>(statistics + s.B * s.H * s.T)) {}

  static constexpr int64_t parts_elements(const AttentionShape& s) {
    const int64_t parts = head_parts(s);
    return parts > 1 ? parts * key_value_elements(s) : 0;
  }
  static constexpr size_t bytes(const AttentionShape& s) {
    return size_t(parts_elements(s)) * sizeof(float) + size_t(s.B * s.H * s.T) * sizeof(simt::Vec<float, 2>) +
           size_t(s.B * query_tiles(s)) * sizeof(int32_t);
  }
};

void attention_dq(const AttentionBackward& a, Stream stream);   // first
void attention_dkv(const AttentionBackward& a, Stream stream);  // then

inline constexpr int kStep = 32;  // rows of the other side that a step takes

}  // namespace genesis::cuda
