// The rotary embedding's angles in CUDA kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/simt/simt.h"

namespace genesis::cuda {

inline constexpr int64_t kRopeLargestHead = 256;

// Angles are 32-bit fractions of a turn, so that they wrap by themselves: position * turns[i] modulo 2^64 is
// exact but for turns[i]'s own rounding, 2^-65 turns, at any distance. A product in fp32 would be off by
// 2^-24 of the angle, 1e-4 radians at position 2,000.
struct RopeFrequencies {
  uint64_t turns[kRopeLargestHead / 2];  // theta^(-2i/K) / 2 pi, in units of 2^-64
};

inline RopeFrequencies rope_frequencies(float theta, int64_t K) {
  RopeFrequencies f{};
  for (int64_t i = 0; i < K / 2; ++i) {
    const double turns = std::pow(double(theta), -2.0 * double(i) / double(K)) / (2 * std::numbers::pi);
    f.turns[i] = uint64_t(std::ldexp(std::fmod(turns, 1.0), 64));
  }
  return f;
}

struct Angle {
  float cosine, sine;
};

// Of `turns` * 2^-32 turns. The nearest quarter turn is taken off exactly; the rest, at most pi/4, goes
// through minimax polynomials (Remez exchange: the sine's relative error is below 3.6e-9, the cosine's error
// 1e-10).
__device__ inline Angle angle_of(uint32_t turns) {
  const uint32_t quarter = (turns + (1u << 29)) >> 30;
  const float x = float(int32_t(turns - (quarter << 30))) * float(2 * std::numbers::pi * 0x1p-32);
  const float square = x * x;
  const float s = x + x * square * (-0.166666552f + square * (0.008332178f + square * -0.000195172994f));
  const float c =
      1.f +
      square * (-0.5f + square * (0.0416666456f + square * (-0.00138873677f + square * 2.44384519e-05f)));
  const float cosine = quarter & 1 ? s : c, sine = quarter & 1 ? c : s;
  return {quarter == 1 || quarter == 2 ? -cosine : cosine, quarter & 2 ? -sine : sine};
}

}  // namespace genesis::cuda
