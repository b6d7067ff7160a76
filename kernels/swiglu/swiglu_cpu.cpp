#include <algorithm>
#include <limits>

#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/vector_math.h"
#include "kernels/swiglu/swiglu.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kRowBlock = 16;  // rows of one task

// No clamp is a clamp that nothing reaches.
float limit_of(float clamp) { return clamp > 0 ? clamp : std::numeric_limits<float>::infinity(); }

// Gate and up within their limits (a NaN stays one), and the sigmoid of the gate.
struct Clamped {
  Vector gate, up, sigmoid;

  Clamped(Vector gate_in, Vector up_in, float limit)
      : gate(min(broadcast(limit), gate_in)),
        up(max(broadcast(-limit), min(broadcast(limit), up_in))),
        sigmoid(fast_sigmoid(gate)) {}
};

template <class T>
void forward_row(int64_t F, float limit, const T* gate, const T* up, T* y) {
  for_vectors(F, [&](int64_t i, auto lanes) {
    const Clamped c(load_vector(gate + i, lanes), load_vector(up + i, lanes), limit);
    store_vector(y + i, c.gate * c.sigmoid * c.up, lanes);
  });
}

template <class T, bool kStoreY>
void backward_row(int64_t F, float limit, const T* dy, const T* gate, const T* up, T* d_gate, T* d_up, T* y) {
  for_vectors(F, [&](int64_t i, auto lanes) {
    const Vector gate_i = load_vector(gate + i, lanes), up_i = load_vector(up + i, lanes);
    const Vector dy_i = load_vector(dy + i, lanes);
    const Clamped c(gate_i, up_i, limit);
    const Vector silu = c.gate * c.sigmoid;
    const Vector silu_slope = c.sigmoid + silu * (1.f - c.sigmoid);
    store_vector(d_gate + i, gate_i >= limit ? Vector{} : dy_i * c.up * silu_slope, lanes);
    store_vector(d_up + i, max(up_i, -up_i) >= limit ? Vector{} : dy_i * silu, lanes);
    if constexpr (kStoreY) store_vector(y + i, silu * c.up, lanes);
  });
}

}  // namespace

void swiglu_forward(const SwiGluForward& a) {
  const float limit = limit_of(a.clamp);
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    parallel_for_rows(a.rows, kRowBlock, [&](int64_t r) {
      const T* gate = static_cast<const T*>(a.gate_up) + r * 2 * a.F;
      forward_row(a.F, limit, gate, gate + a.F, static_cast<T*>(a.y) + r * a.F);
    });
  });
}

void swiglu_backward(const SwiGluBackward& a) {
  const float limit = limit_of(a.clamp);
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    parallel_for_rows(a.rows, kRowBlock, [&](int64_t r) {
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
