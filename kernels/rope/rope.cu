#include "kernels/common/block_count.h"
#include "kernels/common/dispatch.h"
#include "kernels/common/error.h"
#include "kernels/ptx/ptx.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/simt/simt.h"

// A warp turns one row. Each lane owns P pairs of a head's K/2 and computes their sines and cosines once, for
// all the heads of the row that it visits; its accesses are 16 bytes wherever the head size allows it.
//
// Bytes: each query and key read once and written once, 4 (H + KV) K in bf16, and 4 for the position, a row.
namespace genesis::cuda {
namespace {

using simt::Vec;

constexpr int kWarps = 8;

template <class T>
__device__ inline void rotate(T& first, T& second, const Angle& angle) {
  const float a = float(first), b = float(second);
  first = T(a * angle.cosine - b * angle.sine);
  second = T(b * angle.cosine + a * angle.sine);
}

// Pairs i .. i + P - 1 of the head at x.
template <bool interleaved, int P, class T>
__device__ inline void rotate_pairs(T* x, int i, int half, const Angle (&angles)[P]) {
  if constexpr (interleaved) {
    Vec<T, 2 * P> v = simt::load_vec<2 * P>(x + 2 * i);
#pragma unroll
    for (int j = 0; j < P; ++j) rotate(v[2 * j], v[2 * j + 1], angles[j]);
    simt::store_vec(x + 2 * i, v);
  } else {
    Vec<T, P> a = simt::load_vec<P>(x + i), b = simt::load_vec<P>(x + half + i);
#pragma unroll
    for (int j = 0; j < P; ++j) rotate(a[j], b[j], angles[j]);
    simt::store_vec(x + i, a);
    simt::store_vec(x + half + i, b);
  }
}

struct Rows {
  int64_t rows, stride;  // elements from row to row
  int heads, K;          // queries and keys
  bool inverse;
  const int32_t* positions;
};

template <class T, int P, bool interleaved>
__global__ void __launch_bounds__(kWarps* simt::kWarpSize) rope_kernel(Rows r, T* qkv, RopeFrequencies f) {
  const int64_t row = int64_t(blockIdx.x) * kWarps + simt::warp();
  if (row >= r.rows) return;
  const int half = r.K / 2, pieces = half / P;
  const int lanes = pieces < simt::kWarpSize ? pieces : simt::kWarpSize;  // for one head
  const int heads_at_once = simt::kWarpSize / lanes, first_head = simt::lane() / lanes;
  if (first_head >= heads_at_once) return;
  const int32_t position = simt::load(r.positions + row);
  const auto steps = uint64_t(int64_t(r.inverse ? -position : position));
  T* x = qkv + row * r.stride;
  for (int piece = simt::lane() % lanes; piece < pieces; piece += lanes) {
    const int i = piece * P;
    Angle angles[P];
#pragma unroll
    for (int j = 0; j < P; ++j) angles[j] = angle_of(uint32_t(steps * f.turns[i + j] >> 32));
    for (int head = first_head; head < r.heads; head += heads_at_once) {
      rotate_pairs<interleaved>(x + int64_t(head) * r.K, i, half, angles);
    }
  }
}

template <class T, int P, bool interleaved>
void launch_rope(const Rope& a, Stream stream) {
  const Rows r = {a.rows, (a.H + 2 * a.KV) * a.K, int(a.H + a.KV), int(a.K), a.inverse, a.positions};
  simt::launch(rope_kernel<T, P, interleaved>,
               {.grid = {block_count(a.rows, kWarps)},
                .block = kWarps * simt::kWarpSize,
                .stream = stream,
                .name = "rope"},
               r, static_cast<T*>(a.qkv), rope_frequencies(a.theta, a.K));
}

// As many pairs a lane as make accesses of 16 bytes, where they divide a head; else one.
template <class T, bool interleaved>
void launch_layout(const Rope& a, Stream stream) {
  constexpr int kPairs = interleaved ? simt::kVec<T> / 2 : simt::kVec<T>;
  if (a.K / 2 % kPairs == 0) {
    launch_rope<T, kPairs, interleaved>(a, stream);
  } else {
    launch_rope<T, 1, interleaved>(a, stream);
  }
}

}  // namespace

void rope(const Rope& a, Stream stream) {
  require(a.K % 2 == 0 && a.K <= kRopeLargestHead, "rope takes an even head size, up to 256");
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    a.interleaved ? launch_layout<T, true>(a, stream) : launch_layout<T, false>(a, stream);
  });
}

}  // namespace genesis::cuda
