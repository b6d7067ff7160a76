// SwiGLU; see kernels/swiglu/swiglu.h.
#pragma once

#include "engine/ops/op.h"

namespace genesis {

struct SwiGluAttrs {
  float clamp = 0.f;
};

namespace ops {
extern const OpDef kSwiGlu, kSwiGluBackward;
}

}  // namespace genesis
