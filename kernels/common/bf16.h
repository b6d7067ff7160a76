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
    // A select and no branch, so that loops over arrays become vector code.
    const uint32_t nearest = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (u >> 16) | 0x40u;
    return uint16_t((u & 0x7fffffffu) > 0x7f800000u ? quiet_nan : nearest);
  }
};
static_assert(sizeof(bf16) == 2);

}  // namespace genesis
