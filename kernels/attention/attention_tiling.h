// How the attention kernels with tensor cores divide a shape, and what they multiply and move for it. Known
// without a GPU and without the kernels: the engine plans by it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/attention/attention.h"
#include "kernels/common/block_count.h"

namespace genesis::cuda {

// There are two sets of kernels: with tensor cores for these shapes, and plain ones for everything else.
constexpr bool for_tensor_cores(const AttentionShape& s) { return s.dtype == DType::bf16 && s.K <= 128; }

inline constexpr int kWarpRows = 16;  // of an mma
inline constexpr int kTile = 64;      // rows that a block owns, 16 a warp
inline constexpr int kStep = 32;      // rows of the other side that a step of the backward pass takes

// Elements of a tile's row: head sizes are padded with zeros.
constexpr int tile_width(int64_t K) { return K <= 64 ? 64 : 128; }
constexpr int64_t query_tiles(const AttentionShape& s) { return block_count(s.T, kTile); }

// That the registers and shared memory of a kernel leave room for, at a tile's width.
constexpr int blocks_on_multiprocessor(int width) { return width == 64 ? 3 : 2; }

// The parts in which the query heads of a key head are taken, by a block each, for the gradients of keys and
// values: as many as make two blocks for every place of an RTX 4090's 128 multiprocessors. From the shape
// alone, so that a card's size changes no bit.
constexpr int64_t head_parts(const AttentionShape& s) {
  const int64_t enough = 2 * 128 * blocks_on_multiprocessor(tile_width(s.K));
  const int64_t blocks = std::max<int64_t>(s.B * s.KV * query_tiles(s), 1);
  return std::clamp<int64_t>(block_count(enough, blocks), 1, s.H / s.KV);
}

// Elements of dk and dv together.
constexpr int64_t key_value_elements(const AttentionShape& s) { return s.B * s.T * 2 * s.KV * s.K; }

// Bytes of dk and dv of each part of the heads, which a kernel writes and the next one adds up; 0 for one part.
constexpr int64_t parts_bytes(const AttentionShape& s) {
  const int64_t parts = head_parts(s);
  return parts > 1 ? parts * key_value_elements(s) * 4 : 0;
}

// Bytes that the backward pass's kernels leave each other: those parts; of each query two statistics in fp32;
// of each tile of queries the first key that any sees.
constexpr size_t backward_workspace_bytes(const AttentionShape& s) {
  return size_t(parts_bytes(s) + s.B * s.H * s.T * 8 + s.B * query_tiles(s) * 4);
}

// Operations of the matrix instructions of each kernel, two a multiplication, without documents: with them
// tiles that no query sees are left out.
struct AttentionFlops {
  double forward = 0;  // two products: scores, output
  double dq = 0;       // three: scores, d_out . values, dq
  double dkv = 0;      // four: scores and values . d_out transposed, dv, dk
};

constexpr AttentionFlops attention_flops(const AttentionShape& s) {
  int64_t forward = 0, dq = 0, dkv = 0;  // pairs of a query and a key in the tiles and steps of a head
  for (int64_t tile = 0; tile < query_tiles(s); ++tile) forward += (tile + 1) * kTile * kTile;
  for (int64_t row = 0; row < query_tiles(s) * kTile; row += kWarpRows) {
    // A warp leaves out the steps in which none of its rows sees a key, or is seen by a query.
    dq += block_count(std::min(row + kWarpRows, s.T), kStep) * kWarpRows * kStep;
    dkv += block_count(std::max<int64_t>(s.T - row / kStep * kStep, 0), kStep) * kWarpRows * kStep;
  }
  const double a_product = 2. * double(s.B * s.H) * tile_width(s.K);
  return {2 * a_product * double(forward), 3 * a_product * double(dq), 4 * a_product * double(dkv)};
}

}  // namespace genesis::cuda
