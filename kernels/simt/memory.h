// Access to global and shared memory. Every access of a kernel goes through these functions: on a GPU they
// are plain vector loads and stores, on the host each is checked (alignment, bounds, races) and counted.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/ptx/cache.h"
#include "kernels/simt/qualifiers.h"
#include "kernels/simt/site.h"

namespace genesis::simt {

// N elements that move as one access of up to 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N) Vec {
  static_assert(sizeof(T) * N <= 16);
  T v[N];
  constexpr __host__ __device__ T& operator[](int i) { return v[i]; }
  constexpr __host__ __device__ const T& operator[](int i) const { return v[i]; }
};

// Elements of a 16-byte access.
template <class T>
inline constexpr int kVec = 16 / int(sizeof(T));

// Of accesses of 16 bytes; narrower ones are all alike.
// normal: a load from either memory, a store to global memory.
// once: global data that no later access of this kernel, or soon after it, will want. A load leaves L1 as it is;
// what is stored is the first that L2 gives up, so a kernel does not store so what the next one reads.
// none: a store to shared memory, which has no cache.
enum class Cache { normal, once, none };

template <Cache cache = Cache::normal, class T>
__device__ inline T load(const T* p, Site site = Site::current()) {
  static_assert(std::has_single_bit(sizeof(T)) && sizeof(T) <= 16);
  if constexpr (cache == Cache::once && sizeof(T) == 16) {
    return std::bit_cast<T>(ptx::load_once(p, site));
  } else {
#ifdef __CUDACC__
    return std::bit_cast<T>(*reinterpret_cast<const ptx::Bits<sizeof(T)>*>(p));
#else
    T value;
    host::read(&value, p, sizeof(T), host::Kind::load, site);
    return value;
#endif
  }
}

template <Cache cache = Cache::normal, class T>
__device__ inline void store(T* p, const std::type_identity_t<T>& value, Site site = Site::current()) {
  static_assert(std::has_single_bit(sizeof(T)) && sizeof(T) <= 16);
  if constexpr (sizeof(T) == 16) {
    const auto bits = std::bit_cast<ptx::Bits<16>>(value);
    if constexpr (cache == Cache::normal) ptx::store(p, bits, site);
    if constexpr (cache == Cache::once) ptx::store_once(p, bits, site);
    if constexpr (cache == Cache::none) ptx::store_shared(p, bits, site);
  } else {
#ifdef __CUDACC__
    *reinterpret_cast<ptx::Bits<sizeof(T)>*>(p) = std::bit_cast<ptx::Bits<sizeof(T)>>(value);
#else
    host::write(p, &value, sizeof(T), site);
#endif
  }
}

// N consecutive elements from p, which is aligned to their size together.
template <int N, Cache cache = Cache::normal, class T>
__device__ inline Vec<T, N> load_vec(const T* p, Site site = Site::current()) {
  return load<cache>(reinterpret_cast<const Vec<T, N>*>(p), site);
}

template <Cache cache = Cache::normal, class T, int N>
__device__ inline void store_vec(T* p, const Vec<T, N>& value, Site site = Site::current()) {
  store<cache>(reinterpret_cast<Vec<T, N>*>(p), value, site);
}

}  // namespace genesis::simt
