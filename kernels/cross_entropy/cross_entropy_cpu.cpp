#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/vector_math.h"
#include "kernels/cross_entropy/cross_entropy.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kRowBlock = 4;  // rows of one task

template <class T>
float log_sum_exp(int64_t V, const T* logits) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  Vector tops = broadcast(kNone);
  for_vectors(V, [&](int64_t v, auto lanes) { tops = max(load_vector(logits + v, lanes, kNone), tops); });
  const float top = largest(tops);
  Vector sums = {};
  for_vectors(V,
              [&](int64_t v, auto lanes) { sums += fast_exp(load_vector(logits + v, lanes, kNone) - top); });
  return top + std::log(sum(sums));
}

template <class T, class G>
void row(const CrossEntropy& a, int64_t r) {
  const int64_t V = a.V, target = a.targets[r];
  assert(target < V);
  const T* logits = static_cast<const T*>(a.logits) + r * a.stride;
  G* d_logits = a.d_logits ? static_cast<G*>(a.d_logits) + r * a.stride : nullptr;
  if (target < 0) {
    a.row_loss[r] = 0;
    if (d_logits) std::fill_n(d_logits, a.stride, G(0.f));
    return;
  }
  const float lse = log_sum_exp(V, logits);
  const float target_logit = float(logits[target]);
  a.row_loss[r] = lse - target_logit;
  if (!d_logits) return;

  const float factor = 1.f + 2.f * a.z_loss * lse;
  for_vectors(V, [&](int64_t v, auto lanes) {
    store_vector(d_logits + v, factor * fast_exp(load_vector(logits + v, lanes) - lse), lanes);
  });
  d_logits[target] = G(factor * fast_exp(target_logit - lse) - 1.f);
  std::fill(d_logits + V, d_logits + a.stride, G(0.f));
}

}  // namespace

void cross_entropy(const CrossEntropy& a) {
  require(a.stride >= a.V, "cross_entropy: stride is less than V");
  with_float_type(a.logits_dtype, [&](auto t) {
    with_float_type(a.d_logits_dtype, [&](auto g) {
      parallel_for_rows(a.rows, kRowBlock, [&](int64_t r) { row<decltype(t), decltype(g)>(a, r); });
    });
  });
  for (int64_t r = 0; r < a.rows; ++r) {
    a.loss_and_count[0] += a.row_loss[r];
    a.loss_and_count[1] += a.targets[r] >= 0 ? 1.f : 0.f;
  }
}

}  // namespace genesis::cpu
