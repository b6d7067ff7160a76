// One launch over many tensors: they are cut into chunks of a fixed size, a block a chunk.
#pragma once

#include "kernels/common/block_count.h"
#include "kernels/ptx/ptx.h"
#include "kernels/simt/simt.h"

namespace genesis::simt {

struct alignas(16) Chunk {
  int64_t tensor = -1;  // -1: there is no such chunk
  int64_t begin = 0;    // first element
};

// The most chunks that `elements` in `count` tensors can make: as many blocks are started, and those that
// find no chunk end at once.
constexpr int64_t most_chunks(int64_t elements, int64_t count, int64_t chunk) {
  return elements / chunk + count;
}

// Chunk number `number` of the tensors, each with a length n, in device memory. All lanes of a warp call it:
// 32 tensors are looked at together, so that hundreds cost a few memory latencies.
template <class Tensor>
__device__ inline Chunk find_chunk_by_warp(const Tensor* tensors, int64_t count, int64_t chunk,
                                           int64_t number) {
  int64_t before = 0;  // chunks of the tensors already passed
#pragma unroll 1
  for (int64_t first = 0; first < count; first += kWarpSize) {
    const int64_t i = first + lane();
    const int64_t own = i < count ? block_count(load(&tensors[i].n), chunk) : 0;
    int64_t upto = own;  // chunks of this lane's tensor and those of the lanes before
    for (int step = 1; step < kWarpSize; step *= 2) {
      const int64_t other = shuffle_up(upto, step);
      if (lane() >= step) upto += other;
    }
    const uint32_t passed = ballot(before + upto <= number);
    const int owner = ptx::trailing_ones(passed);
    if (owner < kWarpSize) {
      const int64_t start = before + shuffle(upto - own, owner);
      return {first + owner, (number - start) * chunk};
    }
    before += shuffle(upto, kWarpSize - 1);
  }
  return {};
}

// The same for all threads of a block: one warp looks, since eight would read the list eight times. `found`
// is in shared memory.
template <class Tensor>
__device__ inline Chunk find_chunk(const Tensor* tensors, int64_t count, int64_t chunk, int64_t number,
                                   Chunk* found) {
  if (warp() == 0) {
    const Chunk own = find_chunk_by_warp(tensors, count, chunk, number);
    if (lane() == 0) store<Cache::none>(found, own);
  }
  sync_threads();
  return load(found);
}

}  // namespace genesis::simt
