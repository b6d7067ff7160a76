// Sums and zeros; see kernels/elementwise/elementwise.h.
#pragma once

#include "engine/ops/op.h"

namespace genesis {

namespace ops {
extern const OpDef kAdd, kZero;
}

}  // namespace genesis
