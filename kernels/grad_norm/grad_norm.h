// The global L2 norm of the gradient and the factor that AdamW multiplies it by.
//   norm  = sqrt(sum of squares over all tensors) / valid
//   scale = min(1, max_norm / norm) / valid     (max_norm <= 0: no clipping)
// where valid is the number of valid target tokens of the global batch (gradients are sums over tokens until
// here). Deterministic: each tensor in fixed blocks, the blocks' sums added in order, in fp32 pairwise or
// better. If the norm or the loss is not finite, scale is NaN and AdamW then changes nothing.
#pragma once

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"
#include "kernels/cross_entropy/loss_sum.h"

namespace genesis {

struct GradTensor {
  const float* grad = nullptr;
  int64_t n = 0;
};

struct GradNorm {
  const GradTensor* tensors = nullptr;  // [count], host memory on the CPU, device memory on CUDA
  int64_t count = 0;
  int64_t elements = 0;  // the tensors' sum of n
  float max_norm = 1.f;
  const LossSum* loss_and_count = nullptr;  // the loss, and valid; if valid is 0, norm and scale are 0
  float* norm_and_scale = nullptr;          // [2]
  void* workspace = nullptr;                // grad_norm_workspace bytes
};

namespace cpu {
void grad_norm(const GradNorm& a);
size_t grad_norm_workspace(const GradTensor* tensors, int64_t count);
}  // namespace cpu
namespace cuda {
void grad_norm(const GradNorm& a, Stream stream);
size_t grad_norm_workspace(const GradTensor* tensors, int64_t count);  // tensors in host memory
}  // namespace cuda

}  // namespace genesis
