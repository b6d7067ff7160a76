#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/vector_math.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kKeyBlock = 64;  // keys whose scores are kept at a time
constexpr int64_t kRowBlock = 8;   // tokens of one task
constexpr int64_t kMaxK = 256;

template <class T>
float dot(const float* q, const T* k, int64_t K) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < K; ++i) sum += q[i] * float(k[i]);
  return sum;
}

// One query against the first `keys` rows of its head in its slot of the cache.
template <class T>
void attend(const AttentionCached& a, const T* query, const T* k, const T* v, int64_t keys, T* out) {
  const int64_t stride = a.KV * a.K;
  float q[kMaxK], sums[kMaxK] = {}, p[kKeyBlock];
  for (int64_t i = 0; i < a.K; ++i) q[i] = float(query[i]) * a.scale;
  float max = std::numeric_limits<float>::lowest(), denominator = 0;
  for (int64_t begin = 0; begin < keys; begin += kKeyBlock) {
    const int64_t n = std::min(kKeyBlock, keys - begin);
    for (int64_t s = 0; s < n; ++s) p[s] = dot(q, k + (begin + s) * stride, a.K);
    const float block_max = std::max(max, *std::max_element(p, p + n));
    const float factor = fast_exp(max - block_max);
    max = block_max;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t s = 0; s < n; ++s) {
      p[s] = fast_exp(p[s] - max);
      sum += p[s];
    }
    denominator = denominator * factor + sum;
    for (int64_t i = 0; i < a.K; ++i) sums[i] *= factor;
    for (int64_t s = 0; s < n; ++s) {
      const T* row = v + (begin + s) * stride;
      for (int64_t i = 0; i < a.K; ++i) sums[i] += p[s] * float(row[i]);
    }
  }
  const float reciprocal = 1.f / denominator;
  for (int64_t i = 0; i < a.K; ++i) out[i] = T(sums[i] * reciprocal);
}

template <class T>
void cached(const AttentionCached& a) {
  const int64_t stride = (a.H + 2 * a.KV) * a.K, width = a.KV * a.K, of_a_slot = a.T_max * width;
  const T* qkv = static_cast<const T*>(a.qkv);
  T *k_cache = static_cast<T*>(a.k_cache), *v_cache = static_cast<T*>(a.v_cache),
    *out = static_cast<T*>(a.out);
  for (int64_t i = 0; i < a.n; ++i) {
    if (a.slot[i] < 0) continue;
    const T* k = qkv + i * stride + a.H * a.K;
    const int64_t at = a.slot[i] * of_a_slot + a.positions[i] * width;
    std::copy_n(k, width, k_cache + at);
    std::copy_n(k + width, width, v_cache + at);
  }
  parallel_for(block_count(a.n, kRowBlock) * a.H, [&](int64_t task) {
    const int64_t h = task % a.H, begin = task / a.H * kRowBlock, head = h / (a.H / a.KV) * a.K;
    for (int64_t i = begin; i < std::min(a.n, begin + kRowBlock); ++i) {
      T* o = out + (i * a.H + h) * a.K;
      if (a.slot[i] < 0) {
        std::fill_n(o, a.K, T(0.f));
        continue;
      }
      const int64_t at = a.slot[i] * of_a_slot + head;
      attend(a, qkv + i * stride + h * a.K, k_cache + at, v_cache + at, a.positions[i] + 1, o);
    }
  });
}

}  // namespace

void attention_cached(const AttentionCached& a) {
  require(a.K <= kMaxK, "attention_cached: the head is larger than 256");
  for (int64_t i = 0; i < a.n; ++i) {
    if (a.slot[i] < 0) continue;
    require(a.slot[i] < a.slots, "attention_cached: the cache has no such slot");
    require(a.positions[i] >= 0 && a.positions[i] < a.T_max, "attention_cached: the cache is full");
  }
  with_float_type(a.dtype, [&](auto t) { cached<decltype(t)>(a); });
}

}  // namespace genesis::cpu
