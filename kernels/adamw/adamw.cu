// Memory-bound: 28 bytes a parameter and 2 for the bf16 copy, read and written once.
#include "kernels/adamw/adamw.h"
#include "kernels/simt/chunks.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::Cache;

constexpr int kThreads = 256;
// 2 MB of traffic a block, so that finding the tensor among hundreds costs little beside it.
constexpr int64_t kChunk = 65536;

struct Settings {
  float beta1, beta2, eps;
  float lr, correction1, correction2, scale, weight_decay;
};

__device__ inline void step(const Settings& s, float grad, float& master, float& m, float& v) {
  const float g = s.scale * grad;
  m = s.beta1 * m + (1.f - s.beta1) * g;
  v = s.beta2 * v + (1.f - s.beta2) * (g * g);
  master -= s.lr * ((m / s.correction1) / (sqrtf(v / s.correction2) + s.eps) + s.weight_decay * master);
}

// A warp's tile of elements from i on. Until the next update only the copy is read.
__device__ inline void update_tile(const Settings& s, const AdamWTensor& t, int64_t i) {
  float grad[8], master[8], m[8], v[8];
  simt::load_tile(grad, t.grad + i);
  simt::load_tile(master, t.master + i);
  simt::load_tile(m, t.m + i);
  simt::load_tile(v, t.v + i);
#pragma unroll
  for (int j = 0; j < 8; ++j) step(s, grad[j], master[j], m[j], v[j]);
  simt::store_tile<Cache::once>(t.master + i, master);
  simt::store_tile<Cache::once>(t.m + i, m);
  simt::store_tile<Cache::once>(t.v + i, v);
  if (t.copy) simt::store_tile(static_cast<bf16*>(t.copy) + i, master);
}

__device__ inline void update_element(const Settings& s, const AdamWTensor& t, int64_t i) {
  float master = simt::load(t.master + i), m = simt::load(t.m + i), v = simt::load(t.v + i);
  step(s, simt::load(t.grad + i), master, m, v);
  simt::store(t.master + i, master);
  simt::store(t.m + i, m);
  simt::store(t.v + i, v);
  if (t.copy) simt::store(static_cast<bf16*>(t.copy) + i, bf16(master));
}

struct Plan {
  simt::Chunk chunk;
};

__global__ void __launch_bounds__(kThreads) adamw_kernel(AdamW a) {
  auto& plan = simt::shared<Plan>();
  const simt::Chunk chunk = simt::find_chunk(a.tensors, a.count, kChunk, blockIdx.x, &plan.chunk);
  const float scale = simt::load(a.norm_and_scale + 1);
  if (chunk.tensor < 0 || !simt::is_finite(scale)) return;
  const AdamWTensor* in = a.tensors + chunk.tensor;
  const AdamWTensor t = {simt::load(&in->master),      simt::load(&in->m),    simt::load(&in->v),
                         simt::load(&in->grad),        simt::load(&in->copy), simt::load(&in->n),
                         simt::load(&in->weight_decay)};
  const Settings s = {a.beta1,
                      a.beta2,
                      a.eps,
                      simt::load(&a.step->lr),
                      simt::load(&a.step->correction1),
                      simt::load(&a.step->correction2),
                      scale,
                      t.weight_decay};
  const int64_t end = chunk.begin + kChunk < t.n ? chunk.begin + kChunk : t.n;
  for (int64_t i = chunk.begin + simt::warp() * simt::kWarpTile; i < end; i += kThreads * 8) {
    if (i + simt::kWarpTile <= end) {
      update_tile(s, t, i);
    } else {
#pragma unroll 1
      for (int64_t j = i + simt::lane(); j < end; j += simt::kWarpSize) update_element(s, t, j);
    }
  }
}

}  // namespace

void adamw(const AdamW& a, Stream stream) {
  const int64_t blocks = simt::most_chunks(a.elements, a.count, kChunk);
  simt::launch(adamw_kernel, {{blocks}, kThreads, sizeof(Plan), stream, "adamw"}, a);
}

}  // namespace genesis::cuda
