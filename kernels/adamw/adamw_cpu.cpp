#include <cmath>

#include "kernels/adamw/adamw.h"
#include "kernels/common/chunks.h"
#include "kernels/common/simd.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kChunk = 16384;  // elements of one task

struct Coefficients {  // the same for all tensors
  float beta1, beta2, eps, lr, scale;
  float inverse_correction1, inverse_correction2;
};

void update(const Coefficients& c, const AdamWTensor& t, int64_t begin, int64_t end) {
  bf16* copy = static_cast<bf16*>(t.copy);
  for_vectors(end - begin, [&](int64_t k, auto lanes) {
    const int64_t i = begin + k;
    const Vector g = c.scale * load_vector(t.grad + i, lanes);
    const Vector m = c.beta1 * load_vector(t.m + i, lanes) + (1.f - c.beta1) * g;
    const Vector v = c.beta2 * load_vector(t.v + i, lanes) + (1.f - c.beta2) * g * g;
    const Vector step = m * c.inverse_correction1 / (sqrt(v * c.inverse_correction2) + c.eps);
    Vector master = load_vector(t.master + i, lanes);
    master -= c.lr * (step + t.weight_decay * master);
    store_vector(t.m + i, m, lanes);
    store_vector(t.v + i, v, lanes);
    store_vector(t.master + i, master, lanes);
    if (copy) store_vector(copy + i, master, lanes);
  });
}

}  // namespace

void adamw(const AdamW& a) {
  const float scale = a.norm_and_scale[1];
  if (!std::isfinite(scale)) return;
  const Coefficients c = {
      a.beta1, a.beta2, a.eps, a.step->lr, scale, 1.f / a.step->correction1, 1.f / a.step->correction2};
  parallel_for_chunks(
      a.tensors, a.count, kChunk,
      [&](const AdamWTensor& t, int64_t begin, int64_t end, int64_t) { update(c, t, begin, end); });
}

}  // namespace genesis::cpu
