// In place of cuda.cpp, in a build without CUDA.
#include "bench/kernels/register.h"

namespace genesis::bench {

bool add_cuda_kernels() { return false; }

}  // namespace genesis::bench
