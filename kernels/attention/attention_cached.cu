// A step of generation: the new keys and values go into the cache, then each token attends to what its sequence has
// in it. A block owns one query head of one token; its warps take the keys in turn, 32 at a time, and put their
// sums together at the end. Correct and simple; at one token a step, where a launch has only H blocks, it
// waits for memory most of the time.
#include <algorithm>

#include "kernels/attention/attention_plain_cuda.h"
#include "kernels/common/dispatch.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kLanes;

// A thread moves 16 bytes of a new token's keys and values, which are neighbours in qkv.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_append_kernel(AttentionCached a) {
  constexpr int kVec = simt::kVec<T>;
  const int64_t width = a.KV * a.K, i = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * kVec;
  const int64_t row = i / (2 * width), column = i % (2 * width);
  if (row >= a.n) return;
  const int64_t slot = simt::load(a.slot + row);
  if (slot < 0) return;
  const T* source = static_cast<const T*>(a.qkv) + row * (a.H * a.K + 2 * width) + a.H * a.K + column;
  T* cache = static_cast<T*>(column < width ? a.k_cache : a.v_cache);
  const int64_t at = (slot * a.T_max + simt::load(a.positions + row)) * width + column % width;
  simt::store_vec(cache + at, simt::load_vec<kVec>(source));
}

// The warps' softmaxes over their keys.
struct Plan {
  float max[kWarps], sum[kWarps];
  float out[kWarps][2][kLanes * 4];  // the first and the last four columns of each lane
};

template <class T>
__global__ void __launch_bounds__(kThreads, 2) attention_cached_kernel(AttentionCached a) {
  auto& plan = simt::shared<Plan>();
  const int H = int(a.H), KV = int(a.KV), K = int(a.K), warp = simt::warp();
  const int head = int(blockIdx.x), kv = head / (H / KV), token = int(blockIdx.y);
  const int slot = simt::load(a.slot + token);
  T* const result = static_cast<T*>(a.out) + (int64_t(token) * H + head) * K;
  if (slot < 0) {
    if (int(threadIdx.x) < K) simt::store(result + threadIdx.x, T(0.f));
    return;
  }
  const int keys = simt::load(a.positions + token) + 1;
  const T* q = static_cast<const T*>(a.qkv) + (int64_t(token) * (H + 2 * KV) + head) * K;
  const int64_t cache = slot * a.T_max * a.KV * K + kv * K;

  RowSoftmax row(K);
  for (int begin = warp * kLanes; begin < keys; begin += kThreads) {
    row.add(q, static_cast<const T*>(a.k_cache) + cache, static_cast<const T*>(a.v_cache) + cache, a.KV * K,
            begin, std::min(begin + kLanes, keys), a.scale);
  }
  if (simt::lane() == 0) {
    simt::store(&plan.max[warp], row.max);
    simt::store(&plan.sum[warp], row.sum);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* x = row.out.x + 4 * half;
    simt::store_vec<simt::Cache::none>(&plan.out[warp][half][simt::lane() * 4],
                                       simt::Vec<float, 4>{{x[0], x[1], x[2], x[3]}});
  }
  simt::sync_threads();

  // A thread a column. A warp without keys has the maximum -inf and counts for nothing.
  const int column = int(threadIdx.x);
  if (column >= K) return;
  float max = simt::load(&plan.max[0]);
  for (int w = 1; w < kWarps; ++w) max = fmaxf(max, simt::load(&plan.max[w]));
  float sum = 0.f, out = 0.f;
  for (int w = 0; w < kWarps; ++w) {
    const float factor = expf(simt::load(&plan.max[w]) - max);
    sum = fmaf(factor, simt::load(&plan.sum[w]), sum);
    out = fmaf(factor, simt::load(&plan.out[w][column % 8 / 4][column / 8 * 4 + column % 4]), out);
  }
  simt::store(result + column, T(out / sum));
}

}  // namespace

void attention_cached(const AttentionCached& a, Stream stream) {
  check_attention_shape({1, a.n, a.H, a.KV, a.K, a.dtype, a.scale});
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    constexpr int64_t kOfBlock = kThreads * simt::kVec<T>;
    simt::launch(attention_append_kernel<T>,
                 {.grid = {block_count(a.n * 2 * a.KV * a.K, kOfBlock)},
                  .block = kThreads,
                  .stream = stream,
                  .name = "attention_append"},
                 a);
    simt::launch(attention_cached_kernel<T>,
                 {.grid = {a.H, a.n},
                  .block = kThreads,
                  .shared_bytes = sizeof(Plan),
                  .stream = stream,
                  .name = "attention_cached"},
                 a);
  });
}

}  // namespace genesis::cuda
