// The sum over a block's threads.
#pragma once

#include "kernels/simt/simt.h"

namespace genesis::simt {

// In shared memory. kWarps: of the block, a power of two.
template <int kWarps>
struct BlockSum {
  static_assert(kWarps <= kWarpSize);
  float warps[kWarps];
};

// By halves of a warp, then of the warps: every thread gets the same bits. All threads of the block call it;
// a plan may be used again at once.
template <int kWarps>
__device__ inline float block_sum(BlockSum<kWarps>& plan, float x, Site site = Site::current()) {
  x = warp_sum(x, site);
  sync_threads(site);  // the last sum has been read
  if (lane() == 0) store(&plan.warps[warp()], x, site);
  sync_threads(site);
  return warp_sum<kWarps>(load(&plan.warps[lane() % kWarps], site), site);
}

}  // namespace genesis::simt
