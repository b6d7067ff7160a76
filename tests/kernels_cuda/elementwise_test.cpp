#include "kernels/elementwise/elementwise.h"

#include "kernels/common/bf16.h"
#include "kernels/simt/buffer.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

std::vector<float> ramp(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float(i) * 0.37f - 11.f;
  return v;
}

}  // namespace

TEST_CASE("cuda cast rounds as bf16 does, whatever the length") {
  const int64_t n = GENERATE(0, 1, 7, 8, 4096, 5003);
  const std::vector<float> x = ramp(n);
  simt::in_all_orders([&](simt::Session&) {
    const simt::Buffer<float> dx(x, "x");
    const simt::Buffer<bf16> dy(size_t(n), "y");
    const simt::Buffer<float> dz(size_t(n), "z");
    cuda::cast({.n = n, .from = DType::f32, .to = DType::bf16, .x = dx.data(), .y = dy.data()}, {});
    cuda::cast({.n = n, .from = DType::bf16, .to = DType::f32, .x = dy.data(), .y = dz.data()}, {});
    const auto y = dy.values();
    const auto z = dz.values();
    for (size_t i = 0; i < y.size(); ++i) {
      REQUIRE(y[i].bits == bf16(x[i]).bits);
      REQUIRE(z[i] == float(y[i]));
    }
  });
}
