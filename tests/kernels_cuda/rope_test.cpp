#include "kernels/rope/rope.h"

#include "kernels/common/error.h"
#include "kernels/rope/rope_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

TEST_CASE("rope: the CUDA kernel agrees with the reference and leaves the values alone") {
  for (const auto& c : kRopeCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      std::vector<double> bits;
      simt::in_all_orders([&](simt::Session&) {
        const RopeProblem p(c, dtype, simt::kDeviceMemory);
        const auto before = p.qkv.to_double();
        const Result expected = rope_result(p);
        cuda::rope(p.rope(), {});
        simt::finish();
        CHECK(mismatch(expected) == "");
        const auto after = p.qkv.to_double();
        const int64_t row = (c.H + 2 * c.KV) * c.K, values = c.KV * c.K;
        int64_t changed_values = 0;
        for (int64_t i = 0; i < c.rows * row; ++i) {
          changed_values += i % row >= row - values && after[size_t(i)] != before[size_t(i)];
        }
        CHECK(changed_values == 0);
        if (bits.empty()) bits = after;
        CHECK(after == bits);
      });
    }
  }
}

TEST_CASE("rope: the CUDA launcher refuses an odd head and one that is too large") {
  CHECK_THROWS_AS(cuda::rope({.rows = 1, .H = 1, .KV = 1, .K = 7}, {}), Error);
  CHECK_THROWS_AS(cuda::rope({.rows = 1, .H = 1, .KV = 1, .K = 258}, {}), Error);
}
