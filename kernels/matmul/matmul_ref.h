// The specification of the matrix product, on any number type S (float, double, std::complex<double>).
#pragma once

#include "kernels/matmul/matmul.h"

namespace genesis::ref {

// Of the shape, the sizes, transpositions and `accumulate` are looked at, not the types.
template <class S>
void matmul(const MatMulShape& s, const S* a, const S* b, S* c) {
  for (int64_t m = 0; m < s.M; ++m) {
    for (int64_t n = 0; n < s.N; ++n) {
      S sum(0);
      for (int64_t k = 0; k < s.K; ++k) {
        sum += a[s.transpose_a ? k * s.M + m : m * s.K + k] * b[s.transpose_b ? n * s.K + k : k * s.N + n];
      }
      S& out = c[m * s.N + n];
      out = s.accumulate ? out + sum : sum;
    }
  }
}

}  // namespace genesis::ref
