// Random numbers that are a pure function of (seed, stream, index): no state, any order, any number of
// threads. `stream` separates uses of one seed: a tensor's number, say.
#pragma once

#include <array>
#include <cstdint>

namespace genesis {

// Philox4x32-10 (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", SC '11).
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * counter[0];
    const uint64_t p1 = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {uint32_t(p1 >> 32) ^ counter[1] ^ key[0], uint32_t(p1),
               uint32_t(p0 >> 32) ^ counter[3] ^ key[1], uint32_t(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// 4 x 32 random bits: those of indices 4 * block to 4 * block + 3.
constexpr std::array<uint32_t, 4> random_block(uint64_t seed, uint64_t stream, uint64_t block) {
  return philox({uint32_t(block), uint32_t(block >> 32), uint32_t(stream), uint32_t(stream >> 32)},
                {uint32_t(seed), uint32_t(seed >> 32)});
}

// 32 random bits.
constexpr uint32_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
  return random_block(seed, stream, index / 4)[index % 4];
}

// Uniform in [0, 1), a multiple of 2^-24.
constexpr float random_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  return float(random_bits(seed, stream, index) >> 8) * 0x1p-24f;
}

// x[i] = mean + deviation * z(i), z normal with mean 0 and variance 1: Box & Muller 1958, elements 2i and 2i
// + 1 a pair made from their bits; |z| < 6.7. In parallel.
void fill_normal(float* x, int64_t n, uint64_t seed, uint64_t stream, double mean, double deviation);

}  // namespace genesis
