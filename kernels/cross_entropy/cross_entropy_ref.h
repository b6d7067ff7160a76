// The specification of cross-entropy: the formulas of cross_entropy.h in scalar loops. S is float, double or
// std::complex<double>.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>

namespace genesis::ref {

// row_loss and lse: [rows]. lse is set for ignored rows too; row_loss is 0 there.
template <class S>
void cross_entropy_forward(int64_t rows, int64_t V, int64_t stride, const S* logits, const int32_t* targets,
                           S* row_loss, S* lse) {
  using std::exp, std::log;
  for (int64_t r = 0; r < rows; ++r) {
    const S* x = logits + r * stride;
    auto top = std::real(x[0]);  // a constant that leaves lse as it is and keeps exp from overflowing
    for (int64_t v = 0; v < V; ++v) top = std::max(top, std::real(x[v]));
    S sum = 0;
    for (int64_t v = 0; v < V; ++v) sum += exp(x[v] - S(top));
    lse[r] = S(top) + log(sum);
    row_loss[r] = targets[r] >= 0 ? lse[r] - x[targets[r]] : S(0);
  }
}

template <class S>
void cross_entropy_backward(int64_t rows, int64_t V, int64_t stride, double z_loss, const S* logits,
                            const int32_t* targets, const S* lse, S* d_logits) {
  using std::exp;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t v = 0; v < stride; ++v) {
      const int64_t i = r * stride + v;
      d_logits[i] = S(0);
      if (targets[r] < 0 || v >= V) continue;
      d_logits[i] = exp(logits[i] - lse[r]) * (S(1) + S(2 * z_loss) * lse[r]);
      if (v == targets[r]) d_logits[i] -= S(1);
    }
  }
}

}  // namespace genesis::ref
