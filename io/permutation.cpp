#include "io/permutation.h"

#include <bit>

namespace genesis {

namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014).
constexpr uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Eight rounds: four are enough for a network of wide halves, and a dataset may have few samples.
constexpr int kRounds = 8;

}  // namespace

uint64_t mix(uint64_t a, uint64_t b) { return scramble(scramble(a + 0x9e3779b97f4a7c15u) ^ b); }

uint64_t permute(uint64_t index, uint64_t n, uint64_t key) {
  const int half = std::bit_width(n - 1) / 2 + std::bit_width(n - 1) % 2;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  uint64_t x = index;
  do {
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (mix(key + round, right) & mask);
      left = right;
      right = next;
    }
    x = left << half | right;
  } while (x >= n);
  return x;
}

}  // namespace genesis
