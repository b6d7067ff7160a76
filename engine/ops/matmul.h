// Matrix products, c (+)= op(a) op(b); see kernels/matmul/matmul.h.
#pragma once

#include "engine/ops/op.h"

namespace genesis {

struct MatMulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
  bool f32_out = false;  // the product is not rounded to the operands' type
};

namespace ops {
extern const OpDef kMatMul;
}

}  // namespace genesis
