#include "kernels/adamw/adamw.h"

#include <cstring>

#include "kernels/adamw/adamw_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

TEST_CASE("adamw: the reference on numbers worked out by hand") {
  // The first step from zero moments is lr * sign(g), whatever the gradient's size; the decay adds to it.
  double master = 2, m = 0, v = 0;
  ref::adamw<double>({0.9, 0.95, 0.0, 0.1, 0.01, 1 - 0.9, 1 - 0.95, 0.5}, -7.0, master, m, v);
  CHECK(m == Approx(-0.35));
  CHECK(v == Approx(0.05 * 3.5 * 3.5));
  CHECK(master == Approx(2 + 0.01 - 0.01 * 0.1 * 2));
  // The second, with g = 1 after g = -3.5: m = -0.215, v = 0.631875.
  ref::adamw<double>({0.9, 0.95, 0.0, 0.0, 0.01, 1 - 0.81, 1 - 0.9025, 0.5}, 2.0, master, m, v);
  CHECK(m == Approx(-0.215));
  CHECK(v == Approx(0.631875));
  CHECK(master == Approx(2.008 + 0.01 * (0.215 / 0.19) / std::sqrt(0.631875 / 0.0975)));
}

TEST_CASE("adamw: the CPU version agrees with the reference") {
  for (const auto& c : adamw_cases()) {
    INFO(c.name);
    AdamWProblem p(c);
    const auto expected = adamw_results(p);
    cpu::adamw(p.args());
    for (const auto& r : expected) CHECK(mismatch(r) == "");
    for (const auto& r : adamw_copy_results(p)) CHECK(mismatch(r) == "");
  }
}

TEST_CASE("adamw: a scale that is not finite changes no bit") {
  for (const float scale : {NAN, INFINITY, -INFINITY}) {
    AdamWProblem p({"refused", {300, 17}, true, 1, scale}), untouched({"refused", {300, 17}, true, 1, scale});
    p.arrays[0].grad.set(7, NAN);
    cpu::adamw(p.args());
    for (size_t i = 0; i < p.arrays.size(); ++i) {
      const auto same = [&](const Buffer& a, const Buffer& b) {
        return std::memcmp(a.data(), b.data(), size_t(a.size()) * size_of(a.dtype())) == 0;
      };
      CHECK(same(p.arrays[i].master, untouched.arrays[i].master));
      CHECK(same(p.arrays[i].m, untouched.arrays[i].m));
      CHECK(same(p.arrays[i].v, untouched.arrays[i].v));
      CHECK(same(p.arrays[i].copy, untouched.arrays[i].copy));
    }
  }
}
