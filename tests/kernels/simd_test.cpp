#include "kernels/common/simd.h"

#include <limits>
#include <vector>

#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("vectors round to bf16 as single numbers do") {
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 4099) {
    const float x = std::bit_cast<float>(uint32_t(bits));
    const Vector v = broadcast(x);
    REQUIRE(round_to_bf16(v)[kLanes - 1] == bf16(x).bits);
    if (std::abs(x) < std::numeric_limits<float>::min()) continue;
    bf16 stored[kLanes];
    store_vector(stored, v);
    // A NaN may come with another payload.
    REQUIRE((stored[0].bits == bf16(x).bits || (std::isnan(x) && std::isnan(float(stored[0])))));
  }
}

TEST_CASE("for_vectors visits each element once, and touches nothing past the end") {
  for (int64_t n = 0; n <= 3 * kLanes + 1; ++n) {
    std::vector<float> x(size_t(n + 1), 1.f);
    std::vector<bf16> y(size_t(n + 1), bf16(7.f));
    for_vectors(n, [&](int64_t i, auto lanes) {
      const Vector next = load_vector(x.data() + i, lanes) + 1.f;
      store_vector(x.data() + i, next, lanes);
      store_vector(y.data() + i, next, lanes);
    });
    for (size_t i = 0; i < size_t(n); ++i) {
      REQUIRE(x[i] == 2.f);
      REQUIRE(float(y[i]) == 2.f);
    }
    REQUIRE(x.back() == 1.f);
    REQUIRE(float(y.back()) == 7.f);
  }
}

TEST_CASE("what lies past the end is read as what was asked for") {
  const bf16 x[] = {bf16(3.f), bf16(-1.f)};
  const Vector zeros = load_vector(x, 2), lows = load_vector(x, 2, -INFINITY);
  CHECK(sum(zeros) == 2.f);
  CHECK(largest(lows) == 3.f);
  CHECK(lows[kLanes - 1] == -INFINITY);
}

TEST_CASE("sum and largest take every lane") {
  for (int lane = 0; lane < kLanes; ++lane) {
    Vector v = {};
    v[lane] = 5.f;
    CHECK(sum(v) == 5.f);
    CHECK(largest(v - 1.f) == 4.f);
    CHECK(sqrt(v)[lane] == std::sqrt(5.f));
  }
}
