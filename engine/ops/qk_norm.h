// The norm of queries and keys, and rotary positions; see kernels/qk_norm/qk_norm.h.
#pragma once

#include "engine/ops/rope.h"

namespace genesis {

struct QkNormAttrs {
  RopeAttrs rotation;  // not inverse
  float eps = 1e-5f;
};

namespace ops {
extern const OpDef kQkNorm, kQkNormBackward;
}

}  // namespace genesis
