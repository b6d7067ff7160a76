// RMSNorm with the residual add in front; see kernels/rmsnorm/rmsnorm.h.
#pragma once

#include "engine/ops/op.h"

namespace genesis {

struct NormAttrs {
  float eps = 1e-5f;
};

namespace ops {
extern const OpDef kRmsNorm, kRmsNormBackward;
}

}  // namespace genesis
