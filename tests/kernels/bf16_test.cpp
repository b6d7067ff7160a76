#include "kernels/common/bf16.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"

using genesis::bf16;

TEST_CASE("bf16 rounds to nearest even and keeps every value it can hold") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float f = std::bit_cast<float>(bits << 16);
    if (std::isnan(f)) {
      REQUIRE(std::isnan(float(bf16(f))));
    } else {
      REQUIRE(bf16(f).bits == bits);
    }
  }
  CHECK(bf16(std::bit_cast<float>(0x3f808000u)).bits == 0x3f80);  // halfway, down to even
  CHECK(bf16(std::bit_cast<float>(0x3f818000u)).bits == 0x3f82);  // halfway, up to even
  CHECK(std::isinf(float(bf16(std::numeric_limits<float>::max()))));
  CHECK(std::isnan(float(bf16(std::bit_cast<float>(0x7f800001u)))));  // a NaN whose payload would round away
}
