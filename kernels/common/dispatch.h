// From a DType in an argument struct to a C++ type: one switch an op.
#pragma once

#include "kernels/common/bf16.h"
#include "kernels/common/dtype.h"
#include "kernels/common/error.h"

namespace genesis {

// Calls f(T{}) with T float or bf16.
template <class F>
void with_float_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::i32:
      break;
  }
  require(false, "a kernel got integers where it takes f32 or bf16");
}

}  // namespace genesis
