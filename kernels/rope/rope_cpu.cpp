#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/bf16.h"
#include "kernels/common/parallel.h"
#include "kernels/rope/rope.h"

namespace genesis::cpu {

namespace {

// Rows that share one table of angles: packed rows count up, so that a block's positions are few runs.
constexpr int64_t kBlock = 64;

template <class T>
void rotate(T& first, T& second, float cosine, float sine) {
  const float x = float(first), y = float(second);
  first = T(x * cosine - y * sine);
  second = T(y * cosine + x * sine);
}

template <class T>
void rotate_row(T* x, int64_t heads, int64_t K, bool interleaved, const float* cosine, const float* sine) {
  const int64_t half = K / 2;
  for (int64_t head = 0; head < heads; ++head, x += K) {
    if (interleaved) {
      for (int64_t i = 0; i < half; ++i) rotate(x[2 * i], x[2 * i + 1], cosine[i], sine[i]);
    } else {
      for (int64_t i = 0; i < half; ++i) rotate(x[i], x[i + half], cosine[i], sine[i]);
    }
  }
}

template <class T>
void rope(const Rope& a) {
  const int64_t half = a.K / 2, stride = (a.H + 2 * a.KV) * a.K;
  std::vector<double> frequency(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    frequency[size_t(i)] = std::pow(double(a.theta), -2.0 * double(i) / double(a.K));
  }
  parallel_for(block_count(a.rows, kBlock), [&](int64_t block) {
    std::vector<float> cosine(static_cast<size_t>(half)), sine(static_cast<size_t>(half));
    for (int64_t row = block * kBlock; row < std::min(a.rows, (block + 1) * kBlock); ++row) {
      for (size_t i = 0; i < size_t(half); ++i) {
        const double angle = a.positions[row] * frequency[i];
        cosine[i] = float(std::cos(angle));
        sine[i] = float(a.inverse ? -std::sin(angle) : std::sin(angle));
      }
      rotate_row(static_cast<T*>(a.qkv) + row * stride, a.H + a.KV, a.K, a.interleaved, cosine.data(),
                 sine.data());
    }
  });
}

}  // namespace

void rope(const Rope& a) { a.dtype == DType::bf16 ? rope<bf16>(a) : rope<float>(a); }

}  // namespace genesis::cpu
