// bfloat16: the upper half of an IEEE binary32. Conversions round to nearest even and keep NaN a NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace genesis {

struct bf16 {
  uint16_t bits;

  bf16() = default;
  explicit constexpr bf16(float f) : bits(round(f)) {}
  explicit constexpr operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }

 private:
  static constexpr uint16_t round(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    // Half a unit of the last place that stays, less one, plus one to reach an odd neighbour's even; for a
    // NaN the bit that makes it quiet. A select in 32 bits and no branch, so that loops over arrays become
    // good vector code.
    const uint32_t half = 0x7fffu + ((u >> 16) & 1u);
    const uint32_t quiet = ~u & 0x400000u;
    return uint16_t((u + ((u & 0x7fffffffu) > 0x7f800000u ? quiet : half)) >> 16);
  }
};
static_assert(sizeof(bf16) == 2);

}  // namespace genesis
