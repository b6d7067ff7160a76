#include "kernels/common/random.h"

#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("philox gives the published answers") {
  // The known-answer vectors that come with Random123, for philox4x32-10.
  using Counter = std::array<uint32_t, 4>;
  constexpr uint32_t ones = 0xffffffffu;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Counter{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) ==
        Counter{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}) ==
        Counter{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("random numbers have their distribution's moments") {
  constexpr int n = 1 << 16;
  std::vector<float> normal(n);
  fill_normal(normal.data(), n, 7, 3, 0, 1);
  double uniform = 0, sum = 0, squares = 0, fourth = 0, lag = 0, previous = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double u = random_uniform(7, 3, i);
    REQUIRE((u >= 0 && u < 1));
    uniform += u / n;
    const double x = normal[i];
    sum += x / n;
    squares += x * x / n;
    fourth += x * x * x * x / n;
    lag += x * previous / n;
    previous = x;
  }
  // Five standard deviations of each mean: sqrt(variance / n) is 1/256 of the summand's.
  CHECK(std::abs(uniform - 0.5) < 5 * 0.289 / 256);
  CHECK(std::abs(sum) < 5 * 1.0 / 256);
  CHECK(std::abs(squares - 1) < 5 * 1.415 / 256);
  CHECK(std::abs(fourth - 3) < 5 * 9.8 / 256);
  CHECK(std::abs(lag) < 5 * 1.0 / 256);
}

TEST_CASE("seed, stream and index each change a random number") {
  const uint32_t base = random_bits(1, 2, 3);
  CHECK(random_bits(1, 2, 3) == base);
  CHECK(random_bits(2, 2, 3) != base);
  CHECK(random_bits(1, 3, 3) != base);
  CHECK(random_bits(1, 2, 4) != base);
  CHECK(random_bits(1, 2, 3 + (uint64_t(1) << 34)) != base);
  CHECK(random_bits(1 + (uint64_t(1) << 32), 2, 3) != base);
}

TEST_CASE("fill_normal gives an element the same value in an array of any length") {
  std::vector<float> all(10000), some(7);
  fill_normal(all.data(), 10000, 1, 2, 3.0, 0.5);
  fill_normal(some.data(), 7, 1, 2, 3.0, 0.5);
  CHECK(std::equal(some.begin(), some.end(), all.begin()));
  CHECK(all[9999] != all[9998]);
}
