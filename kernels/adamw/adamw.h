// AdamW (Loshchilov & Hutter 2017, arXiv:1711.05101), fused over many tensors:
//   g = scale * grad
//   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   master -= lr * ( (m / correction1) / (sqrt(v / correction2) + eps) + weight_decay * master )
//   copy = round(master)
// About 30 bytes a parameter with a bf16 copy. What changes from step to step is read from device memory.
#pragma once

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

namespace genesis {

struct AdamWTensor {
  float* master = nullptr;      // [n]
  float* m = nullptr;           // [n]
  float* v = nullptr;           // [n]
  const float* grad = nullptr;  // [n]
  void* copy = nullptr;         // [n] bf16, what the model computes with; null: the model uses the master
  int64_t n = 0;
  float weight_decay = 0.f;
};

struct AdamWStep {  // in device memory, written once a step
  float lr = 0.f;
  float correction1 = 1.f;  // 1 - beta1^t, t = 1 for the first step
  float correction2 = 1.f;  // 1 - beta2^t
};

struct AdamW {
  const AdamWTensor* tensors = nullptr;  // [count], host memory on the CPU, device memory on CUDA
  int64_t count = 0;
  int64_t elements = 0;  // the tensors' sum of n
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;
  const AdamWStep* step = nullptr;        // [1]
  const float* norm_and_scale = nullptr;  // [2], of grad_norm; a scale that is not finite: nothing is changed
};

namespace cpu {
void adamw(const AdamW& a);
}
namespace cuda {
void adamw(const AdamW& a, Stream stream);
}

}  // namespace genesis
