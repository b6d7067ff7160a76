// Memory-bound: 4 bytes a parameter.
#include "kernels/grad_norm/grad_norm.h"
#include "kernels/simt/block_sum.h"
#include "kernels/simt/chunks.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / simt::kWarpSize;
constexpr int kPerThread = 4;
// 512 KB a block, so that finding the tensor among hundreds costs little beside it. A thread makes four sums
// of 64 elements each; these, and then the threads', are added pairwise.
constexpr int64_t kChunk = 131072;

struct Plan {
  simt::Chunk chunk;
  simt::BlockSum<kWarps> sum;
};

__global__ void __launch_bounds__(kThreads)
    grad_norm_kernel(const GradTensor* tensors, int64_t count, float* partials) {
  auto& plan = simt::shared<Plan>();
  const simt::Chunk chunk = simt::find_chunk(tensors, count, kChunk, blockIdx.x, &plan.chunk);
  float squares[kPerThread] = {};
  if (chunk.tensor >= 0) {
    const float* grad = simt::load(&tensors[chunk.tensor].grad);
    const int64_t n = simt::load(&tensors[chunk.tensor].n);
    const int64_t end = chunk.begin + kChunk < n ? chunk.begin + kChunk : n;
    for (int64_t i = chunk.begin + int64_t(threadIdx.x) * kPerThread; i < end; i += kThreads * kPerThread) {
      if (i + kPerThread <= end) {
        float g[kPerThread];
        simt::load_floats(g, grad + i);
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) squares[j] += g[j] * g[j];
      } else {
#pragma unroll 1
        for (int64_t j = i; j < end; ++j) {
          const float g = simt::load(grad + j);
          squares[0] += g * g;
        }
      }
    }
  }
  const float sum = simt::block_sum(plan.sum, (squares[0] + squares[1]) + (squares[2] + squares[3]));
  if (threadIdx.x == 0) simt::store(partials + blockIdx.x, sum);
}

// One block: the chunks' sums, and what follows from them. A billion parameters make 7,600 sums: too many
// for fp32's order not to matter, few enough for fp64 on any card.
struct FinalSum {
  double threads[kThreads];
};

__global__ void __launch_bounds__(kThreads) grad_norm_final_kernel(GradNorm a, int64_t partial_count) {
  auto& plan = simt::shared<FinalSum>();
  const float* partials = static_cast<const float*>(a.workspace);
  double sum = 0;
  for (int64_t i = threadIdx.x; i < partial_count; i += kThreads) sum += double(simt::load(partials + i));
  simt::store(&plan.threads[threadIdx.x], sum);
  simt::sync_threads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kThreads; ++i) sum += simt::load(&plan.threads[i]);

  const LossSum* given = a.loss_and_count;
  const LossSum tokens{simt::load(&given->loss), simt::load(&given->count), simt::load(&given->loss_before),
                       simt::load(&given->count_before)};
  const float loss = float(tokens.total_loss());
  const double valid = tokens.total_count();
  float norm = 0.f, scale = 0.f;
  if (valid != 0) {
    norm = float(sqrt(sum) / valid);
    const float clip = a.max_norm > 0.f && norm > a.max_norm ? a.max_norm / norm : 1.f;
    scale = simt::is_finite(norm) && simt::is_finite(loss) ? clip / float(valid) : NAN;
  }
  simt::store(a.norm_and_scale, norm);
  simt::store(a.norm_and_scale + 1, scale);
}

}  // namespace

void grad_norm(const GradNorm& a, Stream stream) {
  const int64_t blocks = simt::most_chunks(a.elements, a.count, kChunk);
  simt::launch(grad_norm_kernel, {{blocks}, kThreads, sizeof(Plan), stream, "grad_norm"}, a.tensors, a.count,
               static_cast<float*>(a.workspace));
  simt::launch(grad_norm_final_kernel, {{1}, kThreads, sizeof(FinalSum), stream, "grad_norm_final"}, a,
               blocks);
}

size_t grad_norm_workspace(const GradTensor* tensors, int64_t count) {
  int64_t elements = 0;
  for (int64_t i = 0; i < count; ++i) elements += tensors[i].n;
  return size_t(simt::most_chunks(elements, count, kChunk)) * sizeof(float);
}

}  // namespace genesis::cuda
