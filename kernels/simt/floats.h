// Vectors of f32 or bf16 in memory as fp32 in registers.
#pragma once

#include <bit>

#include "kernels/common/bf16.h"
#include "kernels/ptx/ptx.h"
#include "kernels/simt/simt.h"

namespace genesis::simt {

// N consecutive elements, in accesses of 16 bytes where they fill one.
template <Cache cache = Cache::normal, int N, class T>
__device__ inline void load_floats(float (&x)[N], const T* p, Site site = Site::current()) {
  constexpr int kAccess = N < kVec<T> ? N : kVec<T>;
#pragma unroll
  for (int i = 0; i < N; i += kAccess) {
    const auto v = load_vec<kAccess, cache>(p + i, site);
#pragma unroll
    for (int j = 0; j < kAccess; ++j) x[i + j] = float(v[j]);
  }
}

template <Cache cache = Cache::normal, int N>
__device__ inline void store_floats(float* p, const float (&x)[N], Site site = Site::current()) {
  constexpr int kAccess = N < 4 ? N : 4;
#pragma unroll
  for (int i = 0; i < N; i += kAccess) {
    Vec<float, kAccess> v;
#pragma unroll
    for (int j = 0; j < kAccess; ++j) v[j] = x[i + j];
    store_vec<cache>(p + i, v, site);
  }
}

// Rounded to nearest even, two at a time.
template <Cache cache = Cache::normal, int N>
__device__ inline void store_floats(bf16* p, const float (&x)[N], Site site = Site::current()) {
  if constexpr (N == 1) {
    store(p, bf16(x[0]), site);
  } else {
    constexpr int kAccess = N < 8 ? N : 8;
#pragma unroll
    for (int i = 0; i < N; i += kAccess) {
      Vec<uint32_t, kAccess / 2> v;
#pragma unroll
      for (int j = 0; j < kAccess / 2; ++j) v[j] = ptx::pack_bf16(x[i + 2 * j], x[i + 2 * j + 1]);
      store_vec<cache>(reinterpret_cast<uint32_t*>(p + i), v, site);
    }
  }
}

// 16 bytes of f32 or bf16 as stored, in whole words: of halves the compiler would keep each in a register of its
// own.
template <class T>
struct Packed {
  static constexpr int kWords = 4, kPerWord = 4 / int(sizeof(T));
  Vec<uint32_t, kWords> words;

  __device__ float operator[](int i) const {
    if constexpr (kPerWord == 1) return std::bit_cast<float>(words[i]);
    return i % 2 ? ptx::high_bf16(words[i / 2]) : ptx::low_bf16(words[i / 2]);
  }
  // Rounds to T.
  __device__ void set(const float (&x)[kVec<T>]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if constexpr (kPerWord == 1)
        words[w] = std::bit_cast<uint32_t>(x[w]);
      else
        words[w] = ptx::pack_bf16(x[2 * w], x[2 * w + 1]);
    }
  }
  static __device__ Packed load(const T* p, Site site = Site::current()) {
    return {load_vec<kWords>(reinterpret_cast<const uint32_t*>(p), site)};
  }
  // From global memory; zeros unless it is there. No branch, so that several are under way together.
  __device__ void load_if(bool there, const T* p, Site site = Site::current()) {
    words = std::bit_cast<Vec<uint32_t, kWords>>(ptx::load_or_zero(p, there, site));
  }
  __device__ void store_to(T* p, Site site = Site::current()) const {
    store_vec(reinterpret_cast<uint32_t*>(p), words, site);
  }
};

// The second half of each even lane's elements changes places with the first half of the next lane's.
template <class T, int N>
__device__ inline void swap_halves(T (&x)[N], Site site = Site::current()) {
  const bool odd = lane() % 2 == 1;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const T other = shuffle_xor(odd ? x[i] : x[i + N / 2], 1, kAllLanes, site);
    x[i] = odd ? other : x[i];
    x[i + N / 2] = odd ? x[i + N / 2] : other;
  }
}

// A warp's tile is 256 consecutive elements that a warp moves together, arrays of f32 and of bf16 alike in
// accesses of 16 bytes a lane that leave no gap between lanes. In registers a lane has its elements 4 lane +
// (0 .. 3) and 128 + 4 lane + (0 .. 3), as f32 is moved; bf16 is moved in eights, which swap_halves makes of
// two lanes' fours.
inline constexpr int kWarpTile = 8 * kWarpSize;

// Where the lane's eight of a tile begin.
__device__ inline int eight_of_lane() { return lane() % 2 * (kWarpTile / 2) + lane() / 2 * 8; }

template <Cache cache = Cache::normal>
__device__ inline void load_tile(float (&x)[8], const float* tile, Site site = Site::current()) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto v = load_vec<4, cache>(tile + half * (kWarpTile / 2) + lane() * 4, site);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[half * 4 + i] = v[i];
  }
}

template <Cache cache = Cache::normal>
__device__ inline void load_tile(float (&x)[8], const bf16* tile, Site site = Site::current()) {
  auto v = load<cache>(reinterpret_cast<const Vec<uint32_t, 4>*>(tile + eight_of_lane()), site);
  swap_halves(v.v, site);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = ptx::low_bf16(v[i]);
    x[2 * i + 1] = ptx::high_bf16(v[i]);
  }
}

template <Cache cache = Cache::normal>
__device__ inline void store_tile(float* tile, const float (&x)[8], Site site = Site::current()) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Vec<float, 4> v;
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = x[half * 4 + i];
    store_vec<cache>(tile + half * (kWarpTile / 2) + lane() * 4, v, site);
  }
}

// The lane's elements of a tile rounded to bf16, exchanged for its eight.
__device__ inline Vec<uint32_t, 4> eight_bf16(const float (&x)[8], Site site = Site::current()) {
  Vec<uint32_t, 4> v;
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = ptx::pack_bf16(x[2 * i], x[2 * i + 1]);
  swap_halves(v.v, site);
  return v;
}

template <Cache cache = Cache::normal>
__device__ inline void store_tile(bf16* tile, const float (&x)[8], Site site = Site::current()) {
  store_vec<cache>(reinterpret_cast<uint32_t*>(tile + eight_of_lane()), eight_bf16(x, site), site);
}

// By its bits: the name std::isfinite means different functions to the two compilers.
__device__ inline bool is_finite(float x) {
  return (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u;
}

// x rounded to T and back: what a later reader of the stored value sees.
template <class T>
__device__ inline float rounded(float x) {
  return float(T(x));
}

}  // namespace genesis::simt
