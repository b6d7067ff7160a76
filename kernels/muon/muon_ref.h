// The specification of Muon: the formulas of muon.h for one matrix. S is float or double.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/matmul/matmul_ref.h"
#include "kernels/muon/muon.h"

namespace genesis::ref {

// x [rows, columns], in place.
template <class S>
void newton_schulz(const Quintic& p, int64_t rows, int64_t columns, std::vector<S>& x) {
  const bool tall = rows > columns;
  const int64_t n = std::min(rows, columns), k = std::max(rows, columns);
  MatMulShape gram{.M = n, .N = n, .K = k, .transpose_a = tall, .transpose_b = !tall};
  std::vector<S> A(size_t(n * n)), square(A.size()), next(x.size());
  matmul(gram, x.data(), x.data(), A.data());
  matmul({.M = n, .N = n, .K = n}, A.data(), A.data(), square.data());
  for (int64_t i = 0; i < n * n; ++i) {
    A[size_t(i)] = S(p.b) * A[size_t(i)] + S(p.c) * square[size_t(i)] + (i % (n + 1) == 0 ? S(p.a) : S(0));
  }
  const MatMulShape apply{.M = rows, .N = columns, .K = n};
  matmul(apply, tall ? x.data() : A.data(), tall ? A.data() : x.data(), next.data());
  x = next;
}

template <class S>
struct MuonSettings {
  S beta, lr, scale, factor, weight_decay;
};

// One step of one matrix; m and master change.
template <class S>
void muon(const MuonSettings<S>& a, const MuonCoefficients& coefficients, int64_t rows, int64_t columns,
          const std::vector<S>& grad, std::vector<S>& m, std::vector<S>& master) {
  if (!std::isfinite(a.scale)) return;
  std::vector<S> x(grad.size());
  S squares(0);
  for (size_t i = 0; i < x.size(); ++i) {
    const S g = a.scale * grad[i];
    m[i] = a.beta * m[i] + (S(1) - a.beta) * g;
    x[i] = (S(1) - a.beta) * g + a.beta * m[i];
    squares += x[i] * x[i];
  }
  const S size = S(coefficients.margin) * std::max(std::sqrt(squares), S(kMuonLeastNorm));
  for (S& element : x) element /= size;
  for (const Quintic& p : coefficients) newton_schulz(p, rows, columns, x);
  for (size_t i = 0; i < x.size(); ++i) {
    master[i] -= a.lr * (a.factor * x[i] + a.weight_decay * master[i]);
  }
}

}  // namespace genesis::ref
