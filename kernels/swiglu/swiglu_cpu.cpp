#include <algorithm>
#include <limits>

#include "kernels/common/convert.h"
#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/vector_math.h"
#include "kernels/swiglu/swiglu.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kRowBlock = 16;  // rows of one task

// No clamp is a clamp that nothing reaches.
float limit_of(float clamp) { return clamp > 0 ? clamp : std::numeric_limits<float>::infinity(); }

template <class T>
void forward_row(int64_t F, float limit, const T* gate, const T* up, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < F; ++i) {
    const float g = std::min(load(gate + i), limit);
    const float u = std::max(std::min(load(up + i), limit), -limit);
    store(y + i, g * fast_sigmoid(g) * u);
  }
}

template <class T, bool kStoreY>
void backward_row(int64_t F, float limit, const T* dy, const T* gate, const T* up, T* d_gate, T* d_up, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < F; ++i) {
    const float gate_i = load(gate + i), up_i = load(up + i), dy_i = load(dy + i);
    const float g = std::min(gate_i, limit);
    const float u = std::max(std::min(up_i, limit), -limit);
    const float s = fast_sigmoid(g), silu = g * s;
    const float silu_slope = s + silu * (1.f - s);
    store(d_gate + i, gate_i < limit ? dy_i * u * silu_slope : 0.f);
    store(d_up + i, up_i < limit && up_i > -limit ? dy_i * silu : 0.f);
    if constexpr (kStoreY) store(y + i, silu * u);
  }
}

// Calls body(r) for each row.
template <class Body>
void for_rows(int64_t rows, const Body& body) {
  parallel_for(block_count(rows, kRowBlock), [&](int64_t block) {
    const int64_t end = std::min(rows, (block + 1) * kRowBlock);
    for (int64_t r = block * kRowBlock; r < end; ++r) body(r);
  });
}

}  // namespace

void swiglu_forward(const SwiGluForward& a) {
  const float limit = limit_of(a.clamp);
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    for_rows(a.rows, [&](int64_t r) {
      const T* gate = static_cast<const T*>(a.gate_up) + r * 2 * a.F;
      forward_row(a.F, limit, gate, gate + a.F, static_cast<T*>(a.y) + r * a.F);
    });
  });
}

void swiglu_backward(const SwiGluBackward& a) {
  const float limit = limit_of(a.clamp);
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    for_rows(a.rows, [&](int64_t r) {
      const T* dy = static_cast<const T*>(a.dy) + r * a.F;
      const T* gate = static_cast<const T*>(a.gate_up) + r * 2 * a.F;
      T* d_gate = static_cast<T*>(a.d_gate_up) + r * 2 * a.F;
      if (a.y) {
        T* y = static_cast<T*>(a.y) + r * a.F;
        backward_row<T, true>(a.F, limit, dy, gate, gate + a.F, d_gate, d_gate + a.F, y);
      } else {
        backward_row<T, false>(a.F, limit, dy, gate, gate + a.F, d_gate, d_gate + a.F, nullptr);
      }
    });
  });
}

}  // namespace genesis::cpu
