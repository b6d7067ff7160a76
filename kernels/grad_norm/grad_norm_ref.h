// The specification of the gradient norm: the formulas of grad_norm.h in scalar loops. S is float or double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace genesis::ref {

template <class S>
struct NormAndScale {
  S norm, scale;
};

template <class S>
NormAndScale<S> grad_norm(const std::vector<std::vector<S>>& tensors, S max_norm, S loss, S valid) {
  if (valid == S(0)) return {S(0), S(0)};
  S sum = 0;
  for (const auto& tensor : tensors) {
    for (const S g : tensor) sum += g * g;
  }
  const S norm = std::sqrt(sum) / valid;
  if (!std::isfinite(norm) || !std::isfinite(loss)) return {norm, std::numeric_limits<S>::quiet_NaN()};
  const S clip = max_norm > S(0) && norm > max_norm ? max_norm / norm : S(1);
  return {norm, clip / valid};
}

}  // namespace genesis::ref
