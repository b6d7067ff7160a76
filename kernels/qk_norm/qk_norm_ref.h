// The specification of the queries' and keys' norm: RMSNorm's, head by head, and the rotary embedding's. S is float,
// double or std::complex<double>; an argument struct's own arrays, but for the positions, and dtype are not looked at.
#pragma once

#include <vector>

#include "kernels/qk_norm/qk_norm.h"
#include "kernels/rmsnorm/rmsnorm_ref.h"
#include "kernels/rope/rope_ref.h"

namespace genesis::ref {

template <class S>
void qk_norm_forward(const QkNormShape& s, const int32_t* positions, const S* qkv, const S* q_weight,
                     const S* k_weight, S* rotated) {
  std::vector<S> unused(static_cast<size_t>(s.K));
  for (int64_t i = 0; i < s.rows * s.row(); ++i) rotated[i] = qkv[i];
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t head = 0; head < s.H + s.KV; ++head) {
      const int64_t at = row * s.row() + head * s.K;
      S rstd;
      rmsnorm_forward<S>(1, s.K, double(s.eps), qkv + at, nullptr, head < s.H ? q_weight : k_weight,
                         unused.data(), rotated + at, &rstd);
    }
  }
  Rope turn{.rows = s.rows, .H = s.H, .KV = s.KV, .K = s.K, .interleaved = s.interleaved, .theta = s.theta};
  turn.positions = positions;
  rope(turn, rotated);
}

// d_qkv as in QkNormBackward; the weights' gradients are added to.
template <class S>
void qk_norm_backward(const QkNormShape& s, const int32_t* positions, const S* qkv, const S* q_weight,
                      const S* k_weight, S* d_qkv, S* d_q_weight, S* d_k_weight) {
  using std::sqrt;
  Rope back{.rows = s.rows, .H = s.H, .KV = s.KV, .K = s.K, .interleaved = s.interleaved, .theta = s.theta};
  back.inverse = true;
  back.positions = positions;
  rope(back, d_qkv);
  std::vector<S> g(static_cast<size_t>(s.K));
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t head = 0; head < s.H + s.KV; ++head) {
      const int64_t at = row * s.row() + head * s.K;
      S squares = 0;
      for (int64_t i = 0; i < s.K; ++i) {
        squares += qkv[at + i] * qkv[at + i];
        g[size_t(i)] = d_qkv[at + i];
      }
      const S rstd = S(1) / sqrt(squares / S(double(s.K)) + S(double(s.eps)));
      rmsnorm_backward<S>(1, s.K, g.data(), nullptr, qkv + at, &rstd, head < s.H ? q_weight : k_weight,
                          d_qkv + at, head < s.H ? d_q_weight : d_k_weight);
    }
  }
}

}  // namespace genesis::ref
