// A pseudo-random permutation of [0, n) that is computed, not stored.
#pragma once

#include <cstdint>

namespace genesis {

// The place of `index` in the permutation of [0, n) that `key` names; 0 <= index < n < 2^62. A Feistel
// network over the smallest even number of bits that holds n, followed from value to value until it is back
// in [0, n) (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002: cycle walking): under four
// steps on average.
uint64_t permute(uint64_t index, uint64_t n, uint64_t key);

// A 64-bit hash of two, for keys: mix(mix(seed, dataset), epoch).
uint64_t mix(uint64_t a, uint64_t b);

}  // namespace genesis
