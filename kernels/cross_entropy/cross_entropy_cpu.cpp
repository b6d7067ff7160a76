#include <algorithm>
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
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class T>
float largest_logit(int64_t V, const T* logits) {
  Vector top = broadcast(-kInfinity);
  for_vectors(V, [&](int64_t v, auto lanes) { top = max(load_vector(logits + v, lanes, -kInfinity), top); });
  return largest(top);
}

// e = exp(logits - top); returns its sum.
template <class T>
float exponentials(int64_t V, const T* logits, float top, float* e) {
  Vector total = {};
  for_vectors(V, [&](int64_t v, auto lanes) {
    const Vector e_v = fast_exp(load_vector(logits + v, lanes, -kInfinity) - top);
    store_vector(e + v, e_v, lanes);
    total += e_v;
  });
  return sum(total);
}

// `e` is scratch for V numbers: kept, they are half the time of computing them again for the gradient.
template <class T, class G>
void row(const CrossEntropy& a, int64_t r, float* e) {
  const int64_t V = a.V, target = a.targets[r];
  assert(target < V);
  const T* logits = static_cast<const T*>(a.logits) + r * a.stride;
  G* d_logits = a.d_logits ? static_cast<G*>(a.d_logits) + r * a.stride : nullptr;
  if (target < 0) {
    a.row_loss[r] = 0;
    if (d_logits) std::fill_n(d_logits, a.stride, G(0.f));
    return;
  }
  const float top = largest_logit(V, logits);
  const float total = exponentials(V, logits, top, e);
  const float lse = top + std::log(total);
  a.row_loss[r] = lse - float(logits[target]);
  if (!d_logits) return;

  const float factor = (1.f + 2.f * a.z_loss * lse) / total;
  for_vectors(V, [&](int64_t v, auto lanes) {
    store_vector(d_logits + v, factor * load_vector(e + v, lanes), lanes);
  });
  d_logits[target] = G(factor * e[target] - 1.f);
  std::fill(d_logits + V, d_logits + a.stride, G(0.f));
}

}  // namespace

void cross_entropy(const CrossEntropy& a) {
  require(a.stride >= a.V, "cross_entropy: stride is less than V");
  with_float_type(a.logits_dtype, [&](auto t) {
    with_float_type(a.d_logits_dtype, [&](auto g) {
      parallel_for(block_count(a.rows, kRowBlock), [&](int64_t block) {
        float* e = static_cast<float*>(a.workspace) + int64_t(thread_index()) * a.V;
        const int64_t end = std::min(a.rows, (block + 1) * kRowBlock);
        for (int64_t r = block * kRowBlock; r < end; ++r) row<decltype(t), decltype(g)>(a, r, e);
      });
    });
  });
  for (int64_t r = 0; r < a.rows; ++r) {
    a.loss_and_count->loss += a.row_loss[r];
    a.loss_and_count->count += a.targets[r] >= 0 ? 1.f : 0.f;
  }
  a.loss_and_count->carry();
}

size_t cross_entropy_workspace(int64_t V) { return size_t(thread_count()) * size_t(V) * sizeof(float); }

}  // namespace genesis::cpu
