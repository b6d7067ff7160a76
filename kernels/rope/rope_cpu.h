// The rotary embedding's angles on the CPU: the exact product of position and frequency, in double, and their sines
// and cosines fp32. No table, since a vectorised pair costs less than reading it.
#pragma once

#include <cmath>
#include <numbers>

#include "kernels/common/vector_math.h"

namespace genesis::cpu {

inline constexpr int64_t kRopeMaxHalf = 128;  // of a head's size

// Turns a position of the pairs of heads of size K.
class RopeFrequencies {
 public:
  RopeFrequencies(float theta, int64_t K) : half_(K / 2) {
    for (int64_t i = 0; i < half_; ++i) {
      turns_[i] = std::pow(double(theta), -2.0 * double(i) / double(K)) / (2 * std::numbers::pi);
    }
  }

  // The pairs' sines and cosines at a position; a negative one turns back.
  void at(double position, float* sine, float* cosine) const {
#pragma omp simd
    for (int64_t i = 0; i < half_; ++i) fast_sin_cos(position * turns_[i], sine[i], cosine[i]);
  }

 private:
  int64_t half_;
  double turns_[kRopeMaxHalf];
};

}  // namespace genesis::cpu
