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
