// What the attention kernels with tensor cores share: tiles of one head's rows in shared memory, a warp's
// fragments of them, and their products. Head sizes are padded with zeros to a tile's width.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/attention/attention_cuda.h"
#include "kernels/common/bf16.h"
#include "kernels/ptx/ptx.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = kWarps * simt::kWarpSize;
static_assert(kTile == kWarps * kWarpRows);
inline constexpr float kLog2e = 1.4426950408889634f;

// Rows of one head in global memory.
struct HeadRows {
  const bf16* x;
  int stride;  // elements from row to row
  int T, K;
};

// Head `head` of sequence b of an array [B, T, heads, K].
__device__ inline HeadRows head_rows(const AttentionShape& s, const void* x, int b, int64_t heads, int head) {
  return {static_cast<const bf16*>(x) + (b * s.T * heads + head) * s.K, int(heads * s.K), int(s.T), int(s.K)};
}

// In shared memory a tile has rows of `width` elements, and its 16-byte chunk c of row r where chunk c ^ (r %
// 8) would be: the eight rows of a matrix that ldmatrix reads lie in different banks, as do the chunks of a
// row.
inline constexpr int kChunk = 8;  // elements
template <int width>
__device__ inline int chunk_offset(int row, int chunk) {
  return row * width + (chunk / 8 * 8 + (chunk % 8 ^ row % 8)) * kChunk;
}

// Starts copying rows first_row .. first_row + rows - 1 of a head; those from T on and the columns from K on
// become zeros. All threads of the block.
template <int rows, int width>
__device__ inline void copy_tile(bf16* tile, const HeadRows& head, int first_row) {
  constexpr int kChunks = width / kChunk, kRowsAtOnce = kThreads / kChunks;
  static_assert(kRowsAtOnce % 8 == 0 && rows % kRowsAtOnce == 0);
  const int row = int(threadIdx.x) / kChunks, chunk = int(threadIdx.x) % kChunks;
  const bf16* source = head.x + int64_t(first_row + row) * head.stride + chunk * kChunk;
  bf16* target = tile + chunk_offset<width>(row, chunk);
  const bool column_exists = chunk * kChunk < head.K;
#pragma unroll
  for (int r = 0; r < rows; r += kRowsAtOnce) {
    const bool exists = column_exists && first_row + row + r < head.T;
    ptx::copy_async<16>(target + r * width, source + r * head.stride, exists ? 16 : 0);
  }
}

// Where a lane reads its row of the 16 x 16 elements at row `row`, column 16 k of a tile, for ldmatrix.x4.
// The second and third of the four matrices are those below and to the right of the first, in this order or,
// `across`, the other way round. row is a multiple of 16 and k a constant, so that all but an exclusive or of
// 16 k is an address's constant.
template <int width, bool across>
__device__ inline int matrix_offset(int row, int k) {
  const int lane = simt::lane(), lane_row = across ? lane % 8 + lane / 16 * 8 : lane % 16;
  const int lane_chunk = (across ? lane / 8 % 2 : lane / 16) ^ lane % 8;
  return (row + lane_row) * width + (2 * k / 8 * 8 + (2 * k % 8 ^ lane_chunk)) * kChunk;
}

// Rows row .. row + 15, columns 16 k .. 16 k + 15 of a tile, as an mma's A.
template <int width>
__device__ inline void load_a(uint32_t (&a)[4], const bf16* tile, int row, int k) {
  ptx::load_matrices(a, tile + matrix_offset<width, false>(row, k));
}

// The same elements as two mma's B, whose columns are the tile's rows: for A B^T.
template <int width>
__device__ inline void load_b_rows(uint32_t (&b)[4], const bf16* tile, int row, int k) {
  ptx::load_matrices(b, tile + matrix_offset<width, true>(row, k));
}

// The same elements as two mma's B, whose rows are the tile's rows: for A B.
template <int width>
__device__ inline void load_b(uint32_t (&b)[4], const bf16* tile, int row, int k) {
  ptx::load_matrices<4, true>(b, tile + matrix_offset<width, false>(row, k));
}

// 16 rows of sums of `columns` columns, as mma leaves them.
template <int columns>
using Sums = float[columns / 8][4];

// d += a times 16 columns from 16 k on of the first `rows` rows of a tile, transposed.
template <int width, int rows>
__device__ inline void multiply_rows(Sums<rows>& d, const uint32_t (&a)[4], const bf16* tile, int k) {
#pragma unroll
  for (int n = 0; n < rows / 16; ++n) {
    uint32_t b[4];
    load_b_rows<width>(b, tile, n * 16, k);
    ptx::mma_m16n8k16(d[2 * n], a, {b[0], b[1]});
    ptx::mma_m16n8k16(d[2 * n + 1], a, {b[2], b[3]});
  }
}

// 16 of a product's columns, rounded, as the A of the next product.
__device__ inline void pack_a(uint32_t (&a)[4], const float (&d0)[4], const float (&d1)[4]) {
  a[0] = ptx::pack_bf16(d0[0], d0[1]);
  a[1] = ptx::pack_bf16(d0[2], d0[3]);
  a[2] = ptx::pack_bf16(d1[0], d1[1]);
  a[3] = ptx::pack_bf16(d1[2], d1[3]);
}

// d += a times the first `rows` rows of a tile.
template <int width, int rows>
__device__ inline void multiply_add(Sums<width>& d, const Sums<rows>& a, const bf16* tile) {
#pragma unroll
  for (int k = 0; k < rows / 16; ++k) {
    uint32_t packed[4];
    pack_a(packed, a[2 * k], a[2 * k + 1]);
#pragma unroll
    for (int n = 0; n < width / 16; ++n) {
      uint32_t b[4];
      load_b<width>(b, tile, k * 16, n);
      ptx::mma_m16n8k16(d[2 * n], packed, {b[0], b[1]});
      ptx::mma_m16n8k16(d[2 * n + 1], packed, {b[2], b[3]});
    }
  }
}

// A lane's place in 16 rows of sums: d[i][j] is in row fragment_row() + j / 2 * 8, column 8 i +
// fragment_column() + j % 2.
__device__ inline int fragment_row() { return simt::lane() / 4; }
__device__ inline int fragment_column() { return simt::lane() % 4 * 2; }

// Word i of lane t of four neighbours becomes word t of lane i.
__device__ inline void transpose_words(uint32_t (&w)[4]) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool upper = simt::lane() & bit;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int low = bit == 1 ? 2 * j : j, high = low + bit;
      const uint32_t got = simt::shuffle_xor(upper ? w[low] : w[high], bit);
      w[low] = upper ? got : w[low];
      w[high] = upper ? w[high] : got;
    }
  }
}

// Stores a warp's 16 rows of sums, times the factor of each of a lane's two rows, 16 bytes a lane.
template <int width>
__device__ inline void store_rows(bf16* rows, int64_t stride, int rows_left, int K, const Sums<width>& d,
                                  const float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = fragment_row() + 8 * half;
#pragma unroll
    for (int block = 0; block < width / 8; block += 4) {
      uint32_t w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&x)[4] = d[block + i];
        w[i] = ptx::pack_bf16(x[2 * half] * factor[half], x[2 * half + 1] * factor[half]);
      }
      transpose_words(w);
      const int column = (block + simt::lane() % 4) * kChunk;
      if (row < rows_left && column < K) {
        simt::store_vec(reinterpret_cast<uint32_t*>(rows + row * stride + column),
                        simt::Vec<uint32_t, 4>{{w[0], w[1], w[2], w[3]}});
      }
    }
  }
}

// A ring of three tiles: while one is used, the next two are under way.
struct Ring {
  int slot = 0;

  // Waits for tile n, the ring's next one, and gives its place. All warps have used the tile before it, and
  // tile n + 2 takes that one's: start_copy(tile, place) starts its copies, if any, and commits them.
  template <class StartCopy>
  __device__ int next(int n, const StartCopy& start_copy) {
    ptx::wait_copies<1>();
    simt::sync_threads();
    const int here = slot;
    start_copy(n + 2, slot == 0 ? 2 : slot - 1);
    slot = slot == 2 ? 0 : slot + 1;
    return here;
  }
};

// The lowest and the highest of the first keys that the queries t0 .. t0 + kTile - 1 see.
struct FirstKeys {
  int low = 0, high = 0;
};

__device__ inline FirstKeys first_keys_of_tile(const int32_t* positions, int t0, int T) {
  if (!positions) return {};
  FirstKeys keys = {t0, 0};
#pragma unroll
  for (int half = 0; half < kTile; half += simt::kWarpSize) {
    const int first = first_key(positions, std::min(t0 + half + simt::lane(), T - 1));
    keys = {std::min(keys.low, first), std::max(keys.high, first)};
  }
#pragma unroll
  for (int bits = simt::kWarpSize / 2; bits > 0; bits /= 2) {
    keys = {std::min(keys.low, simt::shuffle_xor(keys.low, bits)),
            std::max(keys.high, simt::shuffle_xor(keys.high, bits))};
  }
  return keys;
}

// A lane's two rows of a warp's 16 queries: fragment_row() and fragment_row() + 8.
struct QueryRows {
  int t[2];      // place in the sequence
  int first[2];  // the first key that it sees

  __device__ QueryRows(const int32_t* positions, int warp_t, int T) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      t[half] = warp_t + fragment_row() + 8 * half;
      first[half] = first_key(positions, std::min(t[half], T - 1));
    }
  }
};

// The scores of the keys first_key .. first_key + columns - 1 that a row does not see become minus infinity.
template <int columns>
__device__ inline void mask_scores(Sums<columns>& scores, const QueryRows& rows, int first_key) {
#pragma unroll
  for (int block = 0; block < columns / 8; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first_key + block * 8 + fragment_column() + i % 2;
      if (key > rows.t[i / 2] || key < rows.first[i / 2]) scores[block][i] = -INFINITY;
    }
  }
}

}  // namespace genesis::cuda
