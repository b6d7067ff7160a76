// exp and its kin in fp32, inline and without branches or tables, so that the compiler turns a loop that
// calls them into vector code (std::exp is a call per element). Their accuracy is held by
// tests/kernels/vector_math_test.
#pragma once

#include <bit>
#include <cstdint>

namespace genesis {

// e^x, within 1.1 ulp; subnormal results come out rounded, overflow gives infinity, -infinity gives 0, NaN
// stays NaN. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a minimax polynomial (Remez exchange on the relative
// error, which is below 3.1e-9); 2^n in two factors, since 2^-149 and 2^128 are not both reached by one.
inline float fast_exp(float x) {
  constexpr float kLog2e = 1.442695041f;
  constexpr float kLn2High = 0.693145752f;  // ln 2 to 15 bits, so that n * kLn2High is exact
  constexpr float kLn2Low = 1.42860677e-6f;
  constexpr float kToInteger =
      12582912.f;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits

  x = x < -104.f ? -104.f : x;  // below, e^x rounds to 0
  x = x > 89.f ? 89.f : x;      // above, to infinity
  const float shifted = x * kLog2e + kToInteger;
  const float n = shifted - kToInteger;
  const float r = (x - n * kLn2High) - n * kLn2Low;

  float q = 0.00138145401f;
  q = q * r + 0.00836874511f;
  q = q * r + 0.0416683908f;
  q = q * r + 0.166665204f;
  q = q * r + 0.499999934f;
  const float e_r = q * (r * r) + r + 1.f;

  const int32_t exponent = int32_t(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kToInteger));
  const int32_t half = exponent >> 1;
  const float scale_1 = std::bit_cast<float>(uint32_t(half + 127) << 23);
  const float scale_2 = std::bit_cast<float>(uint32_t(exponent - half + 127) << 23);
  return e_r * scale_1 * scale_2;
}

// 1 / (1 + e^-x), within 3 ulp while the result is normal.
inline float fast_sigmoid(float x) { return 1.f / (1.f + fast_exp(-x)); }

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
