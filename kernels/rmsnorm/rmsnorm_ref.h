// The specification of RMSNorm: the formulas of rmsnorm.h, one scalar loop each. S is float, double or
// std::complex<double>. Arrays as in rmsnorm.h; nothing is rounded to a storage type here.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>

namespace genesis::ref {

// `residual` may be null.
template <class S>
void rmsnorm_forward(int64_t rows, int64_t D, double eps, const S* x, const S* residual, const S* weight,
                     S* h, S* y, S* rstd) {
  using std::sqrt;
  for (int64_t r = 0; r < rows; ++r) {
    S sum_of_squares = 0;
    for (int64_t i = r * D; i < (r + 1) * D; ++i) {
      h[i] = residual ? x[i] + residual[i] : x[i];
      sum_of_squares += h[i] * h[i];
    }
    rstd[r] = S(1) / sqrt(sum_of_squares / S(D) + S(eps));
    for (int64_t d = 0; d < D; ++d) y[r * D + d] = h[r * D + d] * rstd[r] * weight[d];
  }
}

// `d_residual` may be null, and y, the forward's output again. d_weight is added to.
template <class S>
void rmsnorm_backward(int64_t rows, int64_t D, const S* dy, const S* d_residual, const S* h, const S* rstd,
                      const S* weight, S* dh, S* d_weight, S* y = nullptr) {
  for (int64_t r = 0; r < rows; ++r) {
    S mean_gh = 0;
    for (int64_t d = 0; d < D; ++d) mean_gh += dy[r * D + d] * weight[d] * h[r * D + d] / S(D);
    for (int64_t d = 0; d < D; ++d) {
      const int64_t i = r * D + d;
      dh[i] = rstd[r] * (dy[i] * weight[d] - h[i] * rstd[r] * rstd[r] * mean_gh);
      if (d_residual) dh[i] += d_residual[i];
      d_weight[d] += dy[i] * h[i] * rstd[r];
      if (y) y[i] = h[i] * rstd[r] * weight[d];
    }
  }
}

}  // namespace genesis::ref
