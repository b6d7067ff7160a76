// How arrays lie in memory that several share: the arena, a node's workspace, its tables.
#pragma once

#include <cstddef>

#include "kernels/common/block_count.h"

namespace genesis {

constexpr size_t kArenaAlign = 256;  // bytes; a CUDA allocation's alignment, and four cache lines

// The room that so many bytes take: up to the next array's begin.
constexpr size_t aligned(size_t bytes) { return block_count(bytes, kArenaAlign) * kArenaAlign; }

}  // namespace genesis
