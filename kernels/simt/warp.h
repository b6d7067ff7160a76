// What threads do together: the block's barrier, and the warp's shuffles, votes and reductions. Every lane of
// the mask must call the same operation at the same place.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/simt/launch.h"
#include "kernels/simt/qualifiers.h"
#include "kernels/simt/site.h"

namespace genesis::simt {

inline constexpr uint32_t kAllLanes = 0xffffffffu;

// All threads of the block; what they wrote before it is seen after it.
__device__ inline void sync_threads([[maybe_unused]] Site site = Site::current()) {
#ifdef __CUDACC__
  __syncthreads();
#else
  host::barrier(site);
#endif
}

// All lanes of the warp; what they wrote to memory before it is seen after it. No other warp operation orders
// memory accesses.
__device__ inline void sync_warp([[maybe_unused]] Site site = Site::current()) {
#ifdef __CUDACC__
  __syncwarp();
#else
  host::sync_warp(site);
#endif
}

// The value of lane `source`. T has 4 or 8 bytes.
template <class T>
__device__ inline T shuffle(T value, int source, uint32_t mask = kAllLanes,
                            [[maybe_unused]] Site site = Site::current()) {
#ifdef __CUDACC__
  return __shfl_sync(mask, value, source);
#else
  return host::shuffle(value, source, mask, site);
#endif
}

// The value of lane() ^ bits.
template <class T>
__device__ inline T shuffle_xor(T value, int bits, uint32_t mask = kAllLanes,
                                [[maybe_unused]] Site site = Site::current()) {
#ifdef __CUDACC__
  return __shfl_xor_sync(mask, value, bits);
#else
  return host::shuffle(value, lane() ^ bits, mask, site);
#endif
}

// The value of lane() - delta; a lane before the start keeps its own.
template <class T>
__device__ inline T shuffle_up(T value, int delta, uint32_t mask = kAllLanes,
                               [[maybe_unused]] Site site = Site::current()) {
#ifdef __CUDACC__
  return __shfl_up_sync(mask, value, delta);
#else
  return host::shuffle(value, lane() >= delta ? lane() - delta : lane(), mask, site);
#endif
}

// Bit i: the predicate of lane i.
__device__ inline uint32_t ballot(bool predicate, uint32_t mask = kAllLanes,
                                  [[maybe_unused]] Site site = Site::current()) {
#ifdef __CUDACC__
  return __ballot_sync(mask, predicate);
#else
  return host::ballot(predicate, mask, site);
#endif
}

__device__ inline bool any(bool predicate, uint32_t mask = kAllLanes, Site site = Site::current()) {
  return ballot(predicate, mask, site) != 0;
}

__device__ inline bool all(bool predicate, uint32_t mask = kAllLanes, Site site = Site::current()) {
  return ballot(predicate, mask, site) == mask;
}

// Sum and maximum over groups of `width` neighbouring lanes (a power of two), by halves: every lane gets the
// same bits. All 32 lanes take part.
template <int width = kWarpSize>
__device__ inline float warp_sum(float x, Site site = Site::current()) {
#pragma unroll
  for (int bits = width / 2; bits > 0; bits /= 2) x += shuffle_xor(x, bits, kAllLanes, site);
  return x;
}

template <int width = kWarpSize>
__device__ inline float warp_max(float x, Site site = Site::current()) {
#pragma unroll
  for (int bits = width / 2; bits > 0; bits /= 2) x = fmaxf(x, shuffle_xor(x, bits, kAllLanes, site));
  return x;
}

}  // namespace genesis::simt
