// RMSNorm's plain kernels: for widths that 16-byte accesses do not divide, or too wide for a warp. A block a row,
// element by element.
#include <algorithm>

#include "kernels/common/dispatch.h"
#include "kernels/rmsnorm/rmsnorm_cuda.h"
#include "kernels/simt/block_sum.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

constexpr int kThreads = kNormWarps * simt::kWarpSize;
using BlockSum = simt::BlockSum<kNormWarps>;

template <class T>
__global__ void __launch_bounds__(kThreads) rmsnorm_forward_plain_kernel(RmsNormForward a) {
  auto& plan = simt::shared<BlockSum>();
  const auto* x = static_cast<const T*>(a.x);
  const auto* residual = static_cast<const T*>(a.residual);
  const auto sum_at = [&](int64_t i) {
    const float value = float(simt::load(x + i));
    return residual ? simt::rounded<T>(value + float(simt::load(residual + i))) : value;
  };
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    float squares = 0.f;
    for (int64_t i = threadIdx.x; i < a.D; i += kThreads) {
      const float h = sum_at(row * a.D + i);
      squares += h * h;
    }
    const float rstd = 1.f / sqrtf(simt::block_sum(plan, squares) / float(a.D) + a.eps);
    for (int64_t i = threadIdx.x; i < a.D; i += kThreads) {
      const float h = sum_at(row * a.D + i), w = float(simt::load(static_cast<const T*>(a.weight) + i));
      if (a.h) simt::store(static_cast<T*>(a.h) + row * a.D + i, T(h));
      simt::store(static_cast<T*>(a.y) + row * a.D + i, T(h * (rstd * w)));
    }
    if (a.rstd && threadIdx.x == 0) simt::store(a.rstd + row, rstd);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) rmsnorm_backward_plain_kernel(RmsNormBackward a) {
  auto& plan = simt::shared<BlockSum>();
  const auto* weight = static_cast<const T*>(a.weight);
  const auto* residual = static_cast<const T*>(a.d_residual);
  float* partial = static_cast<float*>(a.workspace) + int64_t(blockIdx.x) * a.D;
  for (int64_t i = threadIdx.x; i < a.D; i += kThreads) simt::store(partial + i, 0.f);
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const auto* dy = static_cast<const T*>(a.dy) + row * a.D;
    const auto* h = static_cast<const T*>(a.h) + row * a.D;
    const float rstd = simt::load(a.rstd + row);
    float dot = 0.f;
    for (int64_t i = threadIdx.x; i < a.D; i += kThreads) {
      dot += float(simt::load(dy + i)) * float(simt::load(weight + i)) * float(simt::load(h + i));
    }
    const float mean = simt::block_sum(plan, dot) / float(a.D) * rstd * rstd;
    for (int64_t i = threadIdx.x; i < a.D; i += kThreads) {
      const float d = float(simt::load(dy + i)), value = float(simt::load(h + i));
      const float w = float(simt::load(weight + i));
      float dh = rstd * (d * w - value * mean);
      if (residual) dh += float(simt::load(residual + row * a.D + i));
      simt::store(partial + i, simt::load(partial + i) + d * (value * rstd));  // before dh takes dy's place
      simt::store(static_cast<T*>(a.dh) + row * a.D + i, T(dh));
      if (a.y) simt::store(static_cast<T*>(a.y) + row * a.D + i, T(value * (rstd * w)));
    }
  }
}

}  // namespace

void rmsnorm_forward_plain(const RmsNormForward& a, Stream stream) {
  with_float_type(a.dtype, [&](auto t) {
    simt::launch(
        rmsnorm_forward_plain_kernel<decltype(t)>,
        {{std::min(a.rows, kNormForwardBlocks)}, kThreads, sizeof(BlockSum), stream, "rmsnorm_forward"}, a);
  });
}

int64_t rmsnorm_backward_plain(const RmsNormBackward& a, Stream stream) {
  const int64_t blocks = std::min(a.rows, kNormBackwardBlocks);
  with_float_type(a.dtype, [&](auto t) {
    simt::launch(rmsnorm_backward_plain_kernel<decltype(t)>,
                 {{blocks}, kThreads, sizeof(BlockSum), stream, "rmsnorm_backward"}, a);
  });
  return blocks;
}

}  // namespace genesis::cuda
