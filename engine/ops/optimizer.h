// The gradient's norm and AdamW; see kernels/grad_norm/grad_norm.h and kernels/adamw/adamw.h.
#pragma once

#include "engine/ops/op.h"

namespace genesis {

struct GradNormAttrs {
  float max_norm = 0.f;
};

struct AdamWAttrs {
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;
  struct Tensor {
    float weight_decay = 0.f;
    int64_t begin = 0;  // the first element that is updated; how many are is the moments' number of them
  };
  std::vector<Tensor> tensors;
};

namespace ops {
extern const OpDef kGradNorm, kAdamW;
}

}  // namespace genesis
