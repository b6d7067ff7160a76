// What RMSNorm's launchers on CUDA share. There are two sets of kernels: one for rows that a warp holds in 16-byte
// accesses, and plain ones for all others.
#pragma once

#include "kernels/rmsnorm/rmsnorm.h"

namespace genesis::cuda {

inline constexpr int kNormWarps = 8;  // of a block
// The same on every card, because the weight's gradient is summed by blocks: 2 and 1 a multiprocessor of an
// RTX 4090.
inline constexpr int64_t kNormForwardBlocks = 256, kNormBackwardBlocks = 128;

void rmsnorm_forward_plain(const RmsNormForward& a, Stream stream);
// Returns how many partial sums of the weight's gradient it leaves in the workspace, a row of D each.
int64_t rmsnorm_backward_plain(const RmsNormBackward& a, Stream stream);

// d_weight[D] += the blocks' sums, [blocks, D], in a fixed order.
void add_norm_weight(int64_t D, int64_t blocks, const float* partials, float* d_weight, Stream stream);

}  // namespace genesis::cuda
