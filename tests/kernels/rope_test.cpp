#include "kernels/rope/rope.h"

#include "kernels/common/error.h"
#include "kernels/rope/rope_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/complex_step.h"
#include "tests/support/random_vector.h"

using namespace genesis;

TEST_CASE("rope: the reference's inverse is its derivative, and its inverse") {
  const std::vector<int32_t> positions = {0, 3, 1000};
  for (const bool interleaved : {false, true}) {
    Rope forward = {
        .rows = 3, .H = 2, .KV = 1, .K = 6, .interleaved = interleaved, .positions = positions.data()};
    Rope backward = forward;
    backward.inverse = true;
    const auto x = random_vector(3 * 4 * 6, 0), dy = random_vector(3 * 4 * 6, 1);
    auto dx = dy;
    ref::rope(backward, dx.data());
    const auto loss = [&](const std::vector<ComplexArray>& in) {
      ComplexArray y = in[0];
      ref::rope(forward, y.data());
      return dot(dy, y);
    };
    CHECK(gradient_mismatch({{"qkv", x, dx}}, loss) == "");

    auto back = x;
    ref::rope(forward, back.data());
    CHECK(back != x);
    ref::rope(backward, back.data());
    for (size_t i = 0; i < x.size(); ++i) REQUIRE(std::abs(back[i] - x[i]) < 1e-14);
  }
}

TEST_CASE("rope: the CPU version agrees with the reference") {
  for (const auto& c : kRopeCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      const RopeProblem p(c, dtype);
      const auto before = p.qkv.to_double();
      const Result expected = rope_result(p);
      cpu::rope(p.rope());
      CHECK(mismatch(expected) == "");
      const int64_t row = (c.H + 2 * c.KV) * c.K, values = c.KV * c.K;
      for (int64_t i = 0; i < c.rows * row; ++i) {
        if (i % row >= row - values) REQUIRE(p.qkv.get(i) == before[size_t(i)]);
      }
    }
  }
}

TEST_CASE("rope: an odd head and one that is too large are refused") {
  CHECK_THROWS_AS(cpu::rope({.rows = 1, .H = 1, .KV = 1, .K = 7}), Error);
  CHECK_THROWS_AS(cpu::rope({.rows = 1, .H = 1, .KV = 1, .K = 258}), Error);
}
