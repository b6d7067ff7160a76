// A pass over memory that only reads it.
#pragma once

#include <cstddef>

#include "kernels/common/stream.h"

namespace genesis::bench {

// `bytes` from x on, a multiple of 16, 16-byte aligned. What was in the caches before is written back and
// gone if they hold less, and unlike after a pass of writes nothing is left in them that later evictions
// would have to write back at the cost of the kernel that is measured.
void read_all(const void* x, size_t bytes, Stream stream);

}  // namespace genesis::bench
