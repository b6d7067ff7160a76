// The specification of the rotary position embedding, on any number type S (float, double,
// std::complex<double>). Its gradient is the inverse rotation: the same function with `inverse` turned over.
#pragma once

#include <cmath>

#include "kernels/rope/rope.h"

namespace genesis::ref {

// As a.qkv, in place, with elements of type S; a's own qkv and dtype are not looked at.
template <class S>
void rope(const Rope& a, S* qkv) {
  const int64_t stride = (a.H + 2 * a.KV) * a.K;
  for (int64_t row = 0; row < a.rows; ++row) {
    for (int64_t head = 0; head < a.H + a.KV; ++head) {
      S* x = qkv + row * stride + head * a.K;
      for (int64_t i = 0; i < a.K / 2; ++i) {
        const double angle = a.positions[row] * std::pow(double(a.theta), -2.0 * double(i) / double(a.K));
        const S cosine(std::cos(angle)), sine(a.inverse ? -std::sin(angle) : std::sin(angle));
        S& first = x[a.interleaved ? 2 * i : i];
        S& second = x[a.interleaved ? 2 * i + 1 : i + a.K / 2];
        const S rotated = first * cosine - second * sine;
        second = second * cosine + first * sine;
        first = rotated;
      }
    }
  }
}

}  // namespace genesis::ref
