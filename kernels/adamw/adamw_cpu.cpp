#include <cmath>

#include "kernels/adamw/adamw.h"
#include "kernels/common/chunks.h"
#include "kernels/common/convert.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kChunk = 16384;  // elements of one task

struct Coefficients {  // the same for all tensors
  float beta1, beta2, eps, lr, scale;
  float inverse_correction1, inverse_correction2;
};

template <bool kCopy>
void update(const Coefficients& c, const AdamWTensor& t, int64_t begin, int64_t end) {
  float* master = t.master;
  float* m = t.m;
  float* v = t.v;
  const float* grad = t.grad;
  bf16* copy = static_cast<bf16*>(t.copy);
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const float g = c.scale * grad[i];
    const float m_i = c.beta1 * m[i] + (1.f - c.beta1) * g;
    const float v_i = c.beta2 * v[i] + (1.f - c.beta2) * g * g;
    const float step = m_i * c.inverse_correction1 / (std::sqrt(v_i * c.inverse_correction2) + c.eps);
    const float w = master[i] - c.lr * (step + t.weight_decay * master[i]);
    m[i] = m_i;
    v[i] = v_i;
    master[i] = w;
    if constexpr (kCopy) store(copy + i, w);
  }
}

}  // namespace

void adamw(const AdamW& a) {
  const float scale = a.norm_and_scale[1];
  if (!std::isfinite(scale)) return;
  const Coefficients c = {
      a.beta1, a.beta2, a.eps, a.step->lr, scale, 1.f / a.step->correction1, 1.f / a.step->correction2};
  parallel_for_chunks(a.tensors, a.count, kChunk,
                      [&](const AdamWTensor& t, int64_t begin, int64_t end, int64_t) {
                        if (t.copy) {
                          update<true>(c, t, begin, end);
                        } else {
                          update<false>(c, t, begin, end);
                        }
                      });
}

}  // namespace genesis::cpu
