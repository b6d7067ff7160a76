// What the attention kernels without tensor cores share: rows in global memory, read by a warp whose lanes
// take 32 rows at a time, one each, for the scores, and eight columns each for the sums over them.
#pragma once

#include <cmath>

#include "kernels/attention/attention_cuda.h"
#include "kernels/simt/floats.h"

namespace genesis::cuda {

inline constexpr int kLanes = simt::kWarpSize;
inline constexpr int kColumns = 8;  // of a lane: 32 of them make the largest head

template <class T>
__device__ inline float dot(const T* a, const T* b, int K) {
  float sum = 0.f;
#pragma unroll 2  // by four, as the compiler would, takes all 128 registers and spills
  for (int column = 0; column < K; column += kColumns) {
    float x[kColumns], y[kColumns];
    simt::load_floats(x, a + column);
    simt::load_floats(y, b + column);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sum = fmaf(x[i], y[i], sum);
  }
  return sum;
}

// A lane's columns of a row, of sums over rows.
struct Columns {
  float x[kColumns] = {};
  int column, K;

  __device__ explicit Columns(int K) : column(simt::lane() * kColumns), K(K) {}

  // += weight * row
  template <class T>
  __device__ void add(float weight, const T* row) {
    if (column >= K) return;
    float y[kColumns];
    simt::load_floats(y, row + column);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) x[i] = fmaf(weight, y[i], x[i]);
  }
  __device__ void scale(float factor) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) x[i] *= factor;
  }
  template <class T>
  __device__ void store(T* row) const {
    if (column < K) simt::store_floats(row + column, x);
  }
};

// A query's softmax over the keys so far, and the sum of their values, which is still to be divided by `sum`.
struct RowSoftmax {
  Columns out;
  float max = -INFINITY, sum = 0.f;

  __device__ explicit RowSoftmax(int K) : out(K) {}

  // Keys begin .. end - 1, at most 32 and at least one; rows are `stride` apart.
  template <class T>
  __device__ void add(const T* q, const T* keys, const T* values, int64_t stride, int begin, int end,
                      float scale) {
    const int key = begin + simt::lane();
    const float score = key < end ? scale * dot(q, keys + key * stride, out.K) : -INFINITY;
    const float new_max = fmaxf(max, simt::warp_max(score));
    const float shrink = expf(max - new_max), weight = expf(score - new_max);
    max = new_max;
    sum = sum * shrink + simt::warp_sum(weight);
    out.scale(shrink);
    for (int i = begin; i < end; ++i) out.add(simt::shuffle(weight, i - begin), values + i * stride);
  }
};

}  // namespace genesis::cuda
