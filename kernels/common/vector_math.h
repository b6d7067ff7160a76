// exp and its kin in fp32, inline and without branches or tables. V is a Vector (simd.h), or a float: then
// the compiler turns a loop that calls them into vector code (std::exp is a call per element). Their accuracy
// is held by tests/kernels/vector_math_test.
#pragma once

#include <limits>

#include "kernels/common/simd.h"

namespace genesis {

namespace detail {

inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
inline VectorBits bits_of(Vector x) { return std::bit_cast<VectorBits>(x); }
inline float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
inline Vector float_of(VectorBits bits) { return std::bit_cast<Vector>(bits); }

}  // namespace detail

// e^x, within 1.1 ulp where the result is a normal number; below, it is 0. Overflow gives infinity, NaN stays
// NaN. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a minimax polynomial (Remez exchange on the relative
// error, which is below 3.1e-9); n is added to its exponent.
template <class V>
inline V fast_exp(V x) {
  constexpr float kLog2e = 1.442695041f;
  constexpr float kLn2High = 0.693145752f;  // ln 2 to 15 bits, so that n * kLn2High is exact
  constexpr float kLn2Low = 1.42860677e-6f;
  constexpr float kToInteger =
      12582912.f;                          // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  constexpr float kLowest = -87.3365402f;  // e^x is normal from here
  constexpr float kHighest = 88.7228317f;  // and finite up to here
  constexpr float kInfinity = std::numeric_limits<float>::infinity();

  const V shifted = x * kLog2e + kToInteger;
  const V n = shifted - kToInteger;
  const V r = (x - n * kLn2High) - n * kLn2Low;

  V q = r * 0.00138145401f + 0.00836874511f;
  q = q * r + 0.0416683908f;
  q = q * r + 0.166665204f;
  q = q * r + 0.499999934f;
  const V e_r = q * (r * r) + r + 1.f;

  V y = detail::float_of(detail::bits_of(e_r) + (detail::bits_of(shifted) << 23));
  y = x < kLowest ? V{} : y;
  return x <= kHighest ? y : x + kInfinity;
}

// 1 / (1 + e^-x), within 3 ulp while the result is normal.
template <class V>
inline V fast_sigmoid(V x) {
  return 1.f / (1.f + fast_exp(-x));
}

// Sine and cosine of 2 pi * turns, each within 2^-23, for |turns| < 2^49. turns = (n + r) / 4 with |r| <=
// 1/2, in double; then polynomials of r * pi / 2 (Chebyshev interpolation, error below 1e-8) and a quarter's
// symmetry.
inline void fast_sin_cos(double turns, float& sine, float& cosine) {
  constexpr double kToInteger = 6755399441055744.0;  // 1.5 * 2^52: as in fast_exp

  const double quarters = turns * 4;
  const double shifted = quarters + kToInteger;
  const float r = float(quarters - (shifted - kToInteger));
  const uint32_t n = uint32_t(std::bit_cast<uint64_t>(shifted));
  const float y = r * r;
  const float s = r * (1.570796322f + y * (-0.6459634777f + y * (0.07968021765f + y * -0.004602149213f)));
  const float c =
      1.f + y * (-1.233700541f + y * (0.2536692037f + y * (-0.0208600695f + y * 0.0009036280666f)));
  const float odd_sine = n & 1 ? c : s, odd_cosine = n & 1 ? s : c;
  sine = n & 2 ? -odd_sine : odd_sine;
  cosine = (n + 1) & 2 ? -odd_cosine : odd_cosine;
}

}  // namespace genesis
