// A pseudo-random permutation of [0, n) that is computed, not stored.
#pragma once

#include <cstdint>

namespace genesis {

// Where `index` goes in the permutation that (seed, stream) names, as in kernels/common/random.h;
// 0 <= index < n < 2^62. A Feistel network on the smallest even number of bits that holds n, walked from
// value to value until it is back in [0, n) (Black & Rogaway 2002, "Ciphers with arbitrary finite domains"):
// fewer than four steps on average.
uint64_t permute(uint64_t index, uint64_t n, uint64_t seed, uint64_t stream);

}  // namespace genesis
