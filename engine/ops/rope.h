// Rotary positions, in place; see kernels/rope/rope.h.
#pragma once

#include "engine/ops/op.h"

namespace genesis {

struct RopeAttrs {
  int H = 0, KV = 0, K = 0;
  float theta = 500000.f;
  bool interleaved = false;
  bool inverse = false;
};

namespace ops {
extern const OpDef kRope;
}

}  // namespace genesis
