// The small ones. Arrays are contiguous, n elements.
#pragma once

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

namespace genesis {

struct Cast {  // y = x in another type, rounded to nearest even
  int64_t n = 0;
  DType from = DType::f32, to = DType::bf16;
  const void* x = nullptr;
  void* y = nullptr;
};

struct Add {  // y = a + b, fp32 arithmetic
  int64_t n = 0;
  DType dtype = DType::bf16;
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;  // may be a or b
};

struct Zero {
  int64_t bytes = 0;
  void* y = nullptr;
};

namespace cpu {
void cast(const Cast& a);
void add(const Add& a);
void zero(const Zero& a);
}  // namespace cpu
namespace cuda {
void cast(const Cast& a, Stream stream);
void add(const Add& a, Stream stream);
void zero(const Zero& a, Stream stream);
}  // namespace cuda

}  // namespace genesis
