#include "io/permutation.h"

#include <bit>

#include "kernels/common/random.h"

namespace genesis {

namespace {

// Four rounds are enough for a network of wide halves; a dataset may have few samples.
constexpr uint64_t kRounds = 8;

}  // namespace

uint64_t permute(uint64_t index, uint64_t n, uint64_t seed, uint64_t stream) {
  const int half = (std::bit_width(n - 1) + 1) / 2;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  uint64_t x = index;
  do {
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (random_block(seed, stream, round << 32 | right)[0] & mask);
      left = right;
      right = next;
    }
    x = left << half | right;
  } while (x >= n);
  return x;
}

}  // namespace genesis
