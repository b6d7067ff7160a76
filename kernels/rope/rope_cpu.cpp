#include "kernels/rope/rope_cpu.h"

#include <algorithm>

#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/rope/rope.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kRowBlock = 64;

template <class T>
void rotate(T& first, T& second, float cosine, float sine) {
  const float x = float(first), y = float(second);
  first = T(x * cosine - y * sine);
  second = T(y * cosine + x * sine);
}

template <class T>
void rotate_row(const Rope& a, const RopeFrequencies& frequencies, int64_t row) {
  const int64_t half = a.K / 2;
  float cosine[kRopeMaxHalf], sine[kRopeMaxHalf];
  frequencies.at(a.inverse ? -a.positions[row] : a.positions[row], sine, cosine);

  T* x = static_cast<T*>(a.qkv) + row * (a.H + 2 * a.KV) * a.K;
  for (int64_t head = 0; head < a.H + a.KV; ++head, x += a.K) {
    if (a.interleaved) {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) rotate(x[2 * i], x[2 * i + 1], cosine[i], sine[i]);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) rotate(x[i], x[i + half], cosine[i], sine[i]);
    }
  }
}

}  // namespace

void rope(const Rope& a) {
  require(a.K % 2 == 0 && a.K / 2 <= kRopeMaxHalf, "rope takes an even head size, up to 256");
  const RopeFrequencies frequencies(a.theta, a.K);
  with_float_type(a.dtype, [&](auto t) {
    parallel_for(block_count(a.rows, kRowBlock), [&](int64_t block) {
      const int64_t end = std::min(a.rows, (block + 1) * kRowBlock);
      for (int64_t row = block * kRowBlock; row < end; ++row) rotate_row<decltype(t)>(a, frequencies, row);
    });
  });
}

}  // namespace genesis::cpu
