// Where in a kernel's source an operation stands. The host executor names it in errors, counts by it and
// demands that the lanes of a warp meet at the same one; on a GPU it is nothing.
#pragma once

#include "kernels/simt/qualifiers.h"

#ifdef __CUDACC__
namespace genesis::simt {
struct Site {
  static constexpr __host__ __device__ Site current() { return {}; }
};
}  // namespace genesis::simt
#else
#include "kernels/common/source_location.h"
namespace genesis::simt {
using Site = SourceLocation;
}
#endif
