#include "kernels/common/vector_math.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/support/catch.h"

using namespace genesis;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The distance from `found` to the exact value, in units of the last place of the exact value rounded to
// fp32.
double ulps(float found, double exact) {
  const float rounded = float(exact);
  if (std::isinf(rounded) || std::isinf(found)) return found == rounded ? 0 : INFINITY;
  const double ulp = std::max(std::ldexp(1.0, std::ilogb(std::max(std::abs(exact), 1e-300)) - 23), 0x1p-149);
  return std::abs(double(found) - exact) / ulp;
}

// Every 61st float, both signs: 70 million bit patterns in the long form, one in 200 of those in the short
// one.
template <class Visit>
void visit_floats(uint32_t step, const Visit& visit) {
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += step) {
    const float x = std::bit_cast<float>(uint32_t(bits));
    if (!std::isnan(x)) visit(x);
  }
}

void check_accuracy(uint32_t step) {
  double worst_exp = 0, worst_sigmoid = 0;
  visit_floats(step, [&](float x) {
    const double e = std::exp(double(x)), s = 1 / (1 + std::exp(-double(x)));
    const Vector v = broadcast(x);
    if (e >= std::numeric_limits<float>::min()) {
      worst_exp = std::max({worst_exp, ulps(fast_exp(x), e), ulps(fast_exp(v)[1], e)});
    }
    if (s >= std::numeric_limits<float>::min()) {
      worst_sigmoid = std::max({worst_sigmoid, ulps(fast_sigmoid(x), s), ulps(fast_sigmoid(v)[1], s)});
    }
  });
  CHECK(worst_exp <= 1.1);
  CHECK(worst_sigmoid <= 3.0);
}

}  // namespace

TEST_CASE("exp and sigmoid are accurate over all floats") { check_accuracy(12199); }

TEST_CASE("exp and sigmoid are accurate over all floats, densely", "[.][long]") { check_accuracy(61); }

TEST_CASE("exp and sigmoid at the ends of their range") {
  CHECK(fast_exp(0.f) == 1.f);
  CHECK(fast_exp(-0.f) == 1.f);
  CHECK(fast_exp(kInfinity) == kInfinity);
  CHECK(fast_exp(-kInfinity) == 0.f);
  for (const uint32_t nan : {0x7fc00000u, 0x7f800001u, 0x7fc001ffu, 0xffffffffu}) {
    CHECK(std::isnan(fast_exp(std::bit_cast<float>(nan))));
  }
  CHECK(fast_exp(std::numeric_limits<float>::max()) == kInfinity);
  CHECK(fast_exp(std::numeric_limits<float>::lowest()) == 0.f);
  CHECK(fast_exp(88.72283f) < kInfinity);  // the last that does not overflow
  CHECK(fast_exp(88.72284f) == kInfinity);
  CHECK(fast_exp(-87.3365402f) >= std::numeric_limits<float>::min());  // the last that is normal
  CHECK(fast_exp(-87.3365479f) == 0.f);
  CHECK(fast_sigmoid(kInfinity) == 1.f);
  CHECK(fast_sigmoid(-kInfinity) == 0.f);
  CHECK(fast_sigmoid(0.f) == 0.5f);
  CHECK(std::isnan(fast_sigmoid(kNaN)));
}

TEST_CASE("sine and cosine are accurate at every angle that a position can have") {
  double worst = 0;
  for (int64_t i = -200000; i <= 200000; ++i) {
    const double turns = double(i) * double(i) * 1.2345e-7 * (i < 0 ? -1 : 1);  // to 5000 turns
    float sine, cosine;
    fast_sin_cos(turns, sine, cosine);
    const double angle = 2 * std::numbers::pi * std::remainder(turns, 1.0);
    worst = std::max({worst, std::abs(sine - std::sin(angle)), std::abs(cosine - std::cos(angle))});
  }
  CHECK(worst <= 0x1p-23);
  for (int quarter = -8; quarter <= 8; ++quarter) {
    float sine, cosine;
    fast_sin_cos(quarter / 4.0, sine, cosine);
    INFO(quarter << " quarters");
    CHECK(sine == std::round(std::sin(quarter * std::numbers::pi / 2)));
    CHECK(cosine == std::round(std::cos(quarter * std::numbers::pi / 2)));
  }
}
