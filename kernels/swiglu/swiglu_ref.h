// The specification of SwiGLU: the formulas of swiglu.h in scalar loops. S is float, double or
// std::complex<double>.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>

namespace genesis::ref {

template <class S>
S sigmoid(S x) {
  using std::exp;
  return S(1) / (S(1) + exp(-x));
}

template <class S>
void swiglu_forward(int64_t rows, int64_t F, double clamp, const S* gate_up, S* y) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < F; ++i) {
      S gate = gate_up[r * 2 * F + i], up = gate_up[r * 2 * F + F + i];
      if (clamp > 0 && std::real(gate) >= clamp) gate = clamp;
      if (clamp > 0 && std::real(up) >= clamp) up = clamp;
      if (clamp > 0 && std::real(up) <= -clamp) up = -clamp;
      y[r * F + i] = gate * sigmoid(gate) * up;
    }
  }
}

// y, the forward's output again, may be null.
template <class S>
void swiglu_backward(int64_t rows, int64_t F, double clamp, const S* dy, const S* gate_up, S* d_gate_up,
                     S* y = nullptr) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < F; ++i) {
      S gate = gate_up[r * 2 * F + i], up = gate_up[r * 2 * F + F + i];
      const bool gate_free = !(clamp > 0 && std::real(gate) >= clamp);
      const bool up_free = !(clamp > 0 && std::abs(std::real(up)) >= clamp);
      if (!gate_free) gate = clamp;
      if (!up_free) up = std::real(up) > 0 ? clamp : -clamp;
      const S s = sigmoid(gate);
      // d silu(g)/dg = s + g s (1 - s)
      d_gate_up[r * 2 * F + i] = gate_free ? dy[r * F + i] * up * (s + gate * s * (S(1) - s)) : S(0);
      if (y) y[r * F + i] = gate * s * up;
      d_gate_up[r * 2 * F + F + i] = up_free ? dy[r * F + i] * gate * s : S(0);
    }
  }
}

}  // namespace genesis::ref
