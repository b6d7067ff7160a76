// An element of an array of either float type, as fp32. In a loop that is to become vector code, write through
// store: gcc 12 gives up on a loop under `omp simd` that assigns a bf16, a struct, as a whole.
#pragma once

#include "kernels/common/bf16.h"

namespace genesis {

inline float load(const float* p) { return *p; }
inline float load(const bf16* p) { return float(*p); }
inline void store(float* p, float value) { *p = value; }
inline void store(bf16* p, float value) { p->bits = bf16(value).bits; }

}  // namespace genesis
