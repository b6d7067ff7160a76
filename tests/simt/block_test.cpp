// Small kernels that use everything a block's threads do together.
#include <numeric>

#include "kernels/ptx/ptx.h"
#include "kernels/simt/buffer.h"
#include "kernels/simt/session.h"
#include "kernels/simt/simt.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

struct ReversePlan {
  float x[128];
};

__global__ void reverse_kernel(const float* x, float* y) {
  auto& plan = simt::shared<ReversePlan>();
  const int i = int(threadIdx.x);
  simt::store(&plan.x[i], simt::load(x + blockIdx.x * 128 + unsigned(i)));
  simt::sync_threads();
  simt::store(y + blockIdx.x * 128 + unsigned(i), simt::load(&plan.x[127 - i]));
}

__global__ void sum_kernel(const float* x, float* y) {
  const float sum = simt::warp_sum(simt::load(x + threadIdx.x));
  if (simt::lane() == 0) simt::store(y + simt::warp(), sum);
}

struct StagesPlan {
  float x[2][32];
};

__global__ void stages_kernel(const float* x, float* y, int stages) {
  auto& plan = simt::shared<StagesPlan>();
  const int lane = simt::lane();
  ptx::copy_async<4>(&plan.x[0][lane], x + lane);
  ptx::commit_copies();
  for (int s = 0; s < stages; ++s) {
    if (s + 1 < stages) ptx::copy_async<4>(&plan.x[(s + 1) % 2][lane], x + (s + 1) * 32 + lane);
    ptx::commit_copies();
    ptx::wait_copies<1>();
    simt::sync_warp();
    simt::store(y + s * 32 + lane, simt::load(&plan.x[s % 2][31 - lane]));
    simt::sync_warp();
  }
}

std::vector<float> iota(size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 0.f);
  return v;
}

}  // namespace

TEST_CASE("a block passes values through shared memory in every thread order") {
  simt::in_all_orders([](simt::Session& session) {
    const simt::Buffer<float> x(iota(3 * 128), "x"), y(3 * 128, "y");
    simt::launch(reverse_kernel, {.grid = {3}, .block = 128, .shared_bytes = sizeof(ReversePlan), .name = "reverse"},
                 x.data(), y.data());
    const auto values = y.values();
    for (size_t b = 0; b < 3; ++b) {
      for (size_t i = 0; i < 128; ++i) REQUIRE(values[b * 128 + i] == float(b * 128 + 127 - i));
    }
    const auto& r = session.report("reverse");
    CHECK(r.barriers == 3);
    CHECK(r.global_reads().bytes == 3 * 128 * 4);
    CHECK(r.global_reads().sectors == 3 * 128 * 4 / 32);
    CHECK(r.global_writes().sectors_needed == 3 * 128 * 4 / 32);
    CHECK(r.bank_conflicts() == 0);
  });
}

TEST_CASE("a warp's sum is the same in every lane and order") {
  simt::in_all_orders([](simt::Session&) {
    const simt::Buffer<float> x(iota(64), "x"), y(2, "y");
    simt::launch(sum_kernel, {.grid = {1}, .block = 64, .name = "sum"}, x.data(), y.data());
    CHECK(y.values() == std::vector<float>{496.f, 1520.f});
  });
}

TEST_CASE("stages of asynchronous copies arrive at their waits") {
  simt::in_all_orders([](simt::Session&) {
    const simt::Buffer<float> x(iota(160), "x"), y(160, "y");
    simt::launch(stages_kernel, {.grid = {1}, .block = 32, .shared_bytes = sizeof(StagesPlan), .name = "stages"},
                 x.data(), y.data(), 5);
    const auto values = y.values();
    for (size_t i = 0; i < 160; ++i) REQUIRE(values[i] == float(i / 32 * 32 + 31 - i % 32));
  });
}
