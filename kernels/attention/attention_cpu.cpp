#include <algorithm>
#include <vector>

#include "kernels/attention/attention_ref.h"
#include "kernels/common/bf16.h"

namespace genesis::cpu {

namespace {

std::vector<float> widen(const void* x, int64_t n, DType dtype) {
  std::vector<float> y(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    y[size_t(i)] =
        dtype == DType::f32 ? static_cast<const float*>(x)[i] : float(static_cast<const bf16*>(x)[i]);
  }
  return y;
}

void store(const std::vector<float>& x, void* y, DType dtype) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (dtype == DType::f32)
      static_cast<float*>(y)[i] = x[i];
    else
      static_cast<bf16*>(y)[i] = bf16(x[i]);
  }
}

}  // namespace

void attention_forward(const AttentionForward& a) {
  const AttentionShape& s = a.shape;
  const std::vector<float> qkv = widen(a.qkv, s.B * s.T * (s.H + 2 * s.KV) * s.K, s.dtype);
  std::vector<float> out(size_t(s.B * s.T * s.H * s.K));
  ref::attention_forward(s, qkv.data(), a.positions, out.data(), a.lse);
  store(out, a.out, s.dtype);
}

void attention_backward(const AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  const std::vector<float> qkv = widen(a.qkv, s.B * s.T * (s.H + 2 * s.KV) * s.K, s.dtype);
  const std::vector<float> d_out = widen(a.d_out, s.B * s.T * s.H * s.K, s.dtype);
  std::vector<float> d_qkv(qkv.size());
  ref::attention_backward(s, qkv.data(), a.positions, d_out.data(), d_qkv.data());
  store(d_qkv, a.d_qkv, s.dtype);
}

void attention_cached(const AttentionCached& a) {
  const int64_t stride = (a.H + 2 * a.KV) * a.K, kv = a.KV * a.K;
  const size_t size = size_of(a.dtype);
  const char* rows = static_cast<const char*>(a.qkv);
  for (int64_t i = 0; i < a.n; ++i) {
    const char* key = rows + size_t(i * stride + a.H * a.K) * size;
    std::copy_n(key, size_t(kv) * size, static_cast<char*>(a.k_cache) + size_t((*a.first + i) * kv) * size);
    std::copy_n(key + size_t(kv) * size, size_t(kv) * size,
                static_cast<char*>(a.v_cache) + size_t((*a.first + i) * kv) * size);
  }
  const int64_t total = *a.first + a.n;
  const std::vector<float> q = widen(a.qkv, a.n * stride, a.dtype);
  const std::vector<float> k = widen(a.k_cache, total * kv, a.dtype),
                           v = widen(a.v_cache, total * kv, a.dtype);
  std::vector<float> out(size_t(a.n * a.H * a.K));
  for (int64_t i = 0; i < a.n; ++i) {
    for (int64_t h = 0; h < a.H; ++h) {
      const int64_t head = h / (a.H / a.KV) * a.K;
      const auto row = ref::attention_row(q.data() + i * stride + h * a.K, k.data() + head, kv, 0,
                                          *a.first + i, a.K, a.scale);
      for (size_t j = 0; j < row.p.size(); ++j) {
        for (int64_t d = 0; d < a.K; ++d) {
          out[size_t((i * a.H + h) * a.K + d)] += row.p[j] * v[size_t(int64_t(j) * kv + head + d)];
        }
      }
    }
  }
  store(out, a.out, a.dtype);
}

size_t attention_forward_workspace(const AttentionShape&) { return 0; }
size_t attention_backward_workspace(const AttentionShape&) { return 0; }

}  // namespace genesis::cpu
