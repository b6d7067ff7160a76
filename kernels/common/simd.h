// A vector register of fp32 and its loads and stores, for the CPU kernels whose arrays may be bf16: there the
// compiler's own vectorisation takes twice as long (it can't use the instruction that rounds to bf16, and
// widens and narrows by way of vectors twice as long). Arithmetic, comparisons and ?: are the compiler's
// vector extension; fast_exp and fast_sigmoid (vector_math.h) take a Vector too.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/common/bf16.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace genesis {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif
using Vector = float __attribute__((vector_size(4 * kLanes)));
using VectorBits = uint32_t __attribute__((vector_size(4 * kLanes)));
using VectorHalves = uint16_t __attribute__((vector_size(2 * kLanes)));

// How many lanes an operation concerns: all, known when compiling, or the n at the end of an array.
using AllLanes = std::integral_constant<int, kLanes>;

// Calls body(i, lanes) for i = 0, kLanes, 2 kLanes, ...; lanes is an AllLanes, at the end maybe an int.
template <class Body>
inline void for_vectors(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, AllLanes{});
  if (i < n) body(i, int(n - i));
}

inline Vector broadcast(float x) { return x - Vector{}; }

inline Vector load_vector(const float* p, AllLanes = {}) {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline Vector load_vector(const bf16* p, AllLanes = {}) {
  VectorHalves halves;
  std::memcpy(&halves, p, sizeof halves);
#ifdef __AVX512F__  // gcc 12 makes four instructions of __builtin_convertvector here
  const auto wide = VectorBits(_mm512_maskz_cvtepu16_epi32(0xffff, __m256i(halves)));
#else
  const auto wide = __builtin_convertvector(halves, VectorBits);
#endif
  return std::bit_cast<Vector>(wide << 16);
}

inline void store_vector(float* p, Vector v, AllLanes = {}) { std::memcpy(p, &v, sizeof v); }

// As bf16(float) in bf16.h, lane by lane.
inline VectorHalves round_to_bf16(Vector v) {
  const auto u = std::bit_cast<VectorBits>(v);
  const VectorBits half = 0x7fffu + ((u >> 16) & 1u);
  const VectorBits quiet = ~u & 0x400000u;
  return __builtin_convertvector((u + (v == v ? half : quiet)) >> 16, VectorHalves);
}

// The instruction differs from round_to_bf16 below the smallest normal number alone: it gives 0 there.
inline void store_vector(bf16* p, Vector v, AllLanes = {}) {
#ifdef __AVX512BF16__
  const auto halves = _mm512_cvtneps_pbh(v);
#else
  const auto halves = round_to_bf16(v);
#endif
  std::memcpy(p, &halves, sizeof halves);
}

// The first n lanes; `rest` in the others.
template <class T>
inline Vector load_vector(const T* p, int n, float rest = 0.f) {
  T lanes[kLanes];
  for (T& lane : lanes) lane = T(rest);
  std::memcpy(lanes, p, size_t(n) * sizeof(T));
  return load_vector(lanes);
}
template <class T>
inline Vector load_vector(const T* p, AllLanes lanes, float) {
  return load_vector(p, lanes);
}

template <class T>
inline void store_vector(T* p, Vector v, int n) {
  T lanes[kLanes];
  store_vector(lanes, v);
  std::memcpy(p, lanes, size_t(n) * sizeof(T));
}

// b where a or b is a NaN.
inline Vector min(Vector a, Vector b) { return a < b ? a : b; }
inline Vector max(Vector a, Vector b) { return a > b ? a : b; }

inline Vector sqrt(Vector v) {
  for (int i = 0; i < kLanes; ++i) v[i] = std::sqrt(v[i]);
  return v;
}

// sum[i] += x[i] for i in [0, n).
template <class T>
inline void add_to(float* sum, const T* x, int64_t n) {
  for_vectors(n, [&](int64_t i, auto lanes) {
    store_vector(sum + i, load_vector(sum + i, lanes) + load_vector(x + i, lanes), lanes);
  });
}

// op over the lanes, by halves.
template <class Op>
inline float reduce(Vector v, const Op& op) {
  float lanes[kLanes];
  std::memcpy(lanes, &v, sizeof v);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = op(lanes[i], lanes[i + half]);
  }
  return lanes[0];
}
inline float sum(Vector v) {
  return reduce(v, [](float a, float b) { return a + b; });
}
inline float largest(Vector v) {
  return reduce(v, [](float a, float b) { return a > b ? a : b; });
}

}  // namespace genesis
