// The specification of AdamW: the formulas of adamw.h, one element at a time. S is float or double.
#pragma once

#include <cmath>

namespace genesis::ref {

template <class S>
struct AdamWSettings {
  S beta1, beta2, eps, weight_decay, lr, correction1, correction2, scale;
};

template <class S>
void adamw(const AdamWSettings<S>& a, S grad, S& master, S& m, S& v) {
  if (!std::isfinite(a.scale)) return;
  const S g = a.scale * grad;
  m = a.beta1 * m + (S(1) - a.beta1) * g;
  v = a.beta2 * v + (S(1) - a.beta2) * g * g;
  master -= a.lr * ((m / a.correction1) / (std::sqrt(v / a.correction2) + a.eps) + a.weight_decay * master);
}

}  // namespace genesis::ref
