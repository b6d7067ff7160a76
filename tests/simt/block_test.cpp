// Small kernels that use everything a block's threads do together.
#include "kernels/ptx/ptx.h"
#include "kernels/simt/device.h"
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

Buffer floats(int64_t n) { return Buffer(DType::f32, n, simt::kDeviceMemory); }

Buffer iota(int64_t n) {
  Buffer b = floats(n);
  for (int64_t i = 0; i < n; ++i) b.set(i, double(i));
  return b;
}

}  // namespace

TEST_CASE("a block passes values through shared memory in every thread order") {
  simt::in_all_orders([](simt::Session& session) {
    const Buffer x = iota(3 * 128), y = floats(3 * 128);
    simt::launch(reverse_kernel,
                 {.grid = {3}, .block = 128, .shared_bytes = sizeof(ReversePlan), .name = "reverse"},
                 x.as<float>(), y.as<float>());
    simt::finish();
    const auto values = y.to_double();
    for (size_t b = 0; b < 3; ++b) {
      for (size_t i = 0; i < 128; ++i) REQUIRE(values[b * 128 + i] == double(b * 128 + 127 - i));
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
    const Buffer x = iota(64), y = floats(2);
    simt::launch(sum_kernel, {.grid = {1}, .block = 64, .name = "sum"}, x.as<float>(), y.as<float>());
    simt::finish();
    CHECK(y.to_double() == std::vector<double>{496, 1520});
  });
}

TEST_CASE("stages of asynchronous copies arrive at their waits") {
  simt::in_all_orders([](simt::Session&) {
    const Buffer x = iota(160), y = floats(160);
    simt::launch(stages_kernel,
                 {.grid = {1}, .block = 32, .shared_bytes = sizeof(StagesPlan), .name = "stages"},
                 x.as<float>(), y.as<float>(), 5);
    simt::finish();
    const auto values = y.to_double();
    for (size_t i = 0; i < 160; ++i) REQUIRE(values[i] == double(i / 32 * 32 + 31 - i % 32));
  });
}
