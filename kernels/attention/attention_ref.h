// The specification of attention: scalar loops straight from the formulas of attention.h, on any number type
// S (float, double, std::complex<double>).
#pragma once

#include <cmath>
#include <complex>
#include <vector>

#include "kernels/attention/attention.h"

namespace genesis::ref {

// Row t's scores against the keys it sees, first .. t, and their softmax.
template <class S>
struct AttentionRow {
  int64_t first = 0;
  std::vector<S> p;
  S lse = S(0);
};

template <class S>
S dot(const S* a, const S* b, int64_t n) {
  S sum(0);
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// q is one row of K; keys are `stride` elements apart.
template <class S>
AttentionRow<S> attention_row(const S* q, const S* keys, int64_t stride, int64_t first, int64_t t, int64_t K,
                              float scale) {
  AttentionRow<S> row;
  row.first = first;
  row.p.resize(size_t(t - first + 1));
  auto max = std::real(dot(q, keys + first * stride, K)) * scale;
  for (int64_t s = first; s <= t; ++s) {
    S& score = row.p[size_t(s - first)];
    score = dot(q, keys + s * stride, K) * S(scale);
    if (std::real(score) > max) max = std::real(score);
  }
  S sum(0);
  for (S& p : row.p) {
    p = std::exp(p - S(max));  // the maximum of the real parts: a constant, without a derivative
    sum += p;
  }
  for (S& p : row.p) p /= sum;
  row.lse = std::log(sum) + S(max);
  return row;
}

// qkv [B, T, (H + 2 KV) K], out [B, T, H K], lse [B, H, T]; positions [B, T] or null.
template <class S>
void attention_forward(const AttentionShape& s, const S* qkv, const int32_t* positions, S* out, S* lse) {
  const int64_t stride = (s.H + 2 * s.KV) * s.K;
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t h = 0; h < s.H; ++h) {
      const S* q = qkv + b * s.T * stride + h * s.K;
      const S* k = qkv + b * s.T * stride + (s.H + h / (s.H / s.KV)) * s.K;
      const S* v = k + s.KV * s.K;
      for (int64_t t = 0; t < s.T; ++t) {
        const int64_t first = positions ? t - positions[b * s.T + t] : 0;
        const AttentionRow<S> row = attention_row(q + t * stride, k, stride, first, t, s.K, s.scale);
        S* o = out + ((b * s.T + t) * s.H + h) * s.K;
        for (int64_t i = 0; i < s.K; ++i) {
          S sum(0);
          for (int64_t j = first; j <= t; ++j) sum += row.p[size_t(j - first)] * v[j * stride + i];
          o[i] = sum;
        }
        lse[(b * s.H + h) * s.T + t] = row.lse;
      }
    }
  }
}

// With P the softmax and dP[t, s] = d_out[t].v[s]:
//   dv[s] = sum_t P[t, s] d_out[t],   dS[t, s] = P[t, s] (dP[t, s] - sum_u P[t, u] dP[t, u])
//   dq[t] = scale sum_s dS[t, s] k[s],   dk[s] = scale sum_t dS[t, s] q[t]
template <class S>
void attention_backward(const AttentionShape& s, const S* qkv, const int32_t* positions, const S* d_out,
                        S* d_qkv) {
  const int64_t stride = (s.H + 2 * s.KV) * s.K;
  for (int64_t i = 0; i < s.B * s.T * stride; ++i) d_qkv[i] = S(0);
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t h = 0; h < s.H; ++h) {
      const int64_t query = b * s.T * stride + h * s.K;
      const int64_t key = b * s.T * stride + (s.H + h / (s.H / s.KV)) * s.K;
      const int64_t value = key + s.KV * s.K;
      for (int64_t t = 0; t < s.T; ++t) {
        const int64_t first = positions ? t - positions[b * s.T + t] : 0;
        const S* q = qkv + query + t * stride;
        const S* d_o = d_out + ((b * s.T + t) * s.H + h) * s.K;
        const AttentionRow<S> row = attention_row(q, qkv + key, stride, first, t, s.K, s.scale);
        S mean(0);
        for (int64_t j = first; j <= t; ++j) {
          mean += row.p[size_t(j - first)] * dot(d_o, qkv + value + j * stride, s.K);
        }
        for (int64_t j = first; j <= t; ++j) {
          const S p = row.p[size_t(j - first)];
          const S d_score = p * (dot(d_o, qkv + value + j * stride, s.K) - mean) * S(s.scale);
          for (int64_t i = 0; i < s.K; ++i) {
            d_qkv[query + t * stride + i] += d_score * qkv[key + j * stride + i];
            d_qkv[key + j * stride + i] += d_score * q[i];
            d_qkv[value + j * stride + i] += p * d_o[i];
          }
        }
      }
    }
  }
}

}  // namespace genesis::ref
