// Kernels with a planted fault: the executor must catch each, in every thread order, and say where it is.
#include "kernels/ptx/ptx.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "kernels/simt/simt.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

Buffer floats(int64_t n) { return Buffer(DType::f32, n, simt::kDeviceMemory); }

struct Plan {
  alignas(16) float x[64];
};

// The message of the error that launching the kernel throws, in each order.
template <class... P>
std::vector<std::string> faults(void (*kernel)(P...), const char* name, std::type_identity_t<P>... args) {
  std::vector<std::string> messages;
  simt::in_all_orders([&](simt::Session&) {
    try {
      simt::launch(kernel, {.grid = {2, 1}, .block = 64, .shared_bytes = sizeof(Plan), .name = name},
                   args...);
      messages.push_back("no error");
    } catch (const Error& e) {
      messages.push_back(e.what());
    }
  });
  return messages;
}

#define CHECK_ALL(messages, matcher)            \
  for (const std::string& message : messages) { \
    CHECK_THAT(message, matcher);               \
  }

__global__ void missing_barrier(float* y) {
  auto& plan = simt::shared<Plan>();
  simt::store(&plan.x[threadIdx.x], 1.f);
  simt::store(y + threadIdx.x, simt::load(&plan.x[63 - threadIdx.x]));
}

__global__ void missing_barrier_before_reuse(float* y) {
  auto& plan = simt::shared<Plan>();
  for (int i = 0; i < 2; ++i) {
    simt::store(&plan.x[threadIdx.x], float(i));
    simt::sync_threads();
    simt::store(y + threadIdx.x, simt::load(&plan.x[63 - threadIdx.x]));
  }
}

__global__ void missing_sync_warp(float* y) {
  auto& plan = simt::shared<Plan>();
  simt::store(&plan.x[threadIdx.x], 1.f);
  const float sum = simt::warp_sum(1.f);  // does not order memory accesses
  simt::store(y + threadIdx.x, sum + simt::load(&plan.x[threadIdx.x ^ 1]));
}

__global__ void write_race(float*) {
  auto& plan = simt::shared<Plan>();
  simt::store(&plan.x[threadIdx.x / 2], 1.f);
}

__global__ void missing_wait(float* y, const float* x) {
  auto& plan = simt::shared<Plan>();
  ptx::copy_async<4>(&plan.x[threadIdx.x], x + threadIdx.x);
  ptx::commit_copies();
  simt::store(y + threadIdx.x, simt::load(&plan.x[threadIdx.x]));
}

__global__ void wait_for_too_few(float* y, const float* x) {
  auto& plan = simt::shared<Plan>();
  ptx::copy_async<4>(&plan.x[threadIdx.x], x + threadIdx.x);
  ptx::commit_copies();
  ptx::wait_copies<1>();
  simt::store(y + threadIdx.x, simt::load(&plan.x[threadIdx.x]));
}

__global__ void missing_barrier_after_wait(float* y, const float* x) {
  auto& plan = simt::shared<Plan>();
  ptx::copy_async<4>(&plan.x[threadIdx.x], x + threadIdx.x);
  ptx::commit_copies();
  ptx::wait_copies<0>();
  simt::store(y + threadIdx.x, simt::load(&plan.x[63 - threadIdx.x]));
}

__global__ void divergent_barrier() {
  if (threadIdx.x != 37) simt::sync_threads();
}

__global__ void two_barriers() {
  if (threadIdx.x < 32) {
    simt::sync_threads();
  } else {
    simt::sync_threads();
  }
}

__global__ void missing_lane() {
  if (threadIdx.x != 37) simt::shuffle_xor(1.f, 1);
}

__global__ void lane_at_barrier() {
  if (threadIdx.x != 37) simt::shuffle_xor(1.f, 1);
  simt::sync_threads();
}

__global__ void two_shuffles() {
  if (threadIdx.x % 2 == 0) {
    simt::shuffle_xor(1.f, 1);
  } else {
    simt::shuffle_xor(1.f, 1);
  }
}

__global__ void not_in_mask() { simt::ballot(true, 0xffff); }

__global__ void shuffle_from_outside() {
  if (simt::lane() < 16) simt::shuffle(1.f, 20, 0xffff);
}

__global__ void read_past_end(float* y, const float* x) {
  simt::store(y + threadIdx.x, simt::load(x + threadIdx.x + 1));
}

__global__ void write_before_start(float* y) { simt::store(y + threadIdx.x - 1, 0.f); }

__global__ void past_the_plan() {
  auto& plan = simt::shared<Plan>();
  simt::store(plan.x + threadIdx.x + 1, 0.f);
}

__global__ void misaligned(float* y) { simt::store_vec(y + threadIdx.x, simt::Vec<float, 4>{}); }

__global__ void misaligned_rows() {
  uint32_t r[1];
  ptx::load_matrices<1>(r, &simt::shared<Plan>().x[simt::lane() % 8]);
}

__global__ void one_byte() {
  simt::store(reinterpret_cast<uint8_t*>(simt::shared<Plan>().x) + threadIdx.x, uint8_t(0));
}

struct TooLarge {
  float x[65];
};

__global__ void larger_plan() { simt::store(&simt::shared<TooLarge>().x[0], 0.f); }

}  // namespace

TEST_CASE("a missing barrier is caught") {
  const Buffer y = floats(64);
  CHECK_ALL(faults(missing_barrier, "missing_barrier", y.as<float>()),
            contains("kernel missing_barrier, block (") && contains(", thread ") &&
                contains(" shared memory that thread ") && contains("no barrier between") &&
                contains("faults_test.cpp:"));
  CHECK_ALL(faults(missing_barrier_before_reuse, "reuse", y.as<float>()), contains("race: "));
  CHECK_ALL(faults(missing_sync_warp, "missing_sync_warp", y.as<float>()), contains("race: "));
}

TEST_CASE("two threads that write the same place are caught") {
  CHECK_ALL(faults(write_race, "write_race", nullptr),
            contains("kernel write_race, block (") && contains("race: writes shared memory that thread ") &&
                contains(" wrote "));
}

TEST_CASE("a missing wait for an asynchronous copy is caught") {
  const Buffer x = floats(64), y = floats(64);
  for (const auto& messages : {faults(missing_wait, "missing_wait", y.as<float>(), x.as<float>()),
                               faults(wait_for_too_few, "missing_wait", y.as<float>(), x.as<float>())}) {
    CHECK_ALL(messages, contains("kernel missing_wait, block (") && contains("thread ") &&
                            contains("missing wait: reads shared memory"));
  }
  CHECK_ALL(faults(missing_barrier_after_wait, "after_wait", y.as<float>(), x.as<float>()),
            contains("race: "));
}

TEST_CASE("a barrier that part of the block does not reach is caught") {
  CHECK_ALL(faults(divergent_barrier, "divergent_barrier"),
            contains("kernel divergent_barrier, block (") && contains("thread ") &&
                contains("divergent barrier") && contains("thread 37 has ended"));
  CHECK_ALL(faults(two_barriers, "two_barriers"),
            contains("divergent barrier") && contains("is at another one"));
}

TEST_CASE("a lane missing from a warp operation is caught") {
  CHECK_ALL(faults(missing_lane, "missing_lane"), contains("kernel missing_lane, block (") &&
                                                      contains("thread 32: lane missing from shuffle") &&
                                                      contains("thread 37 has ended"));
  CHECK_ALL(faults(lane_at_barrier, "lane_at_barrier"),
            contains("lane missing from shuffle") && contains("thread 37 is at a barrier"));
  CHECK_ALL(faults(two_shuffles, "two_shuffles"), contains("while lanes of its warp are at shuffle"));
  CHECK_ALL(faults(not_in_mask, "not_in_mask"), contains("a lane that is not in its mask"));
  CHECK_ALL(faults(shuffle_from_outside, "outside"), contains("asks for lane 20, which is not in the mask"));
}

TEST_CASE("an access out of bounds is caught") {
  const Buffer x = floats(64), y = floats(64);
  CHECK_ALL(faults(read_past_end, "read_past_end", y.as<float>(), x.as<float>()),
            contains("kernel read_past_end, block (") &&
                contains("thread 63: out of bounds: reads 4 bytes at offset 256 of a buffer of 256 bytes"));
  CHECK_ALL(faults(write_before_start, "write_before_start", y.as<float>()),
            contains("thread 0: out of bounds: writes 4 bytes at "));
  CHECK_ALL(faults(past_the_plan, "past_the_plan"),
            contains("thread 63: out of bounds: writes 4 bytes at offset 256 of 256 bytes of shared memory"));
  std::vector<float> host(64);
  CHECK_ALL(faults(read_past_end, "host_pointer", y.as<float>(), host.data()),
            contains("not in device memory"));
}

TEST_CASE("a pointer to a buffer that is gone is caught") {
  const float* stale = floats(64).as<float>();
  const Buffer y = floats(64);
  CHECK_ALL(faults(read_past_end, "stale", y.as<float>(), stale), contains("out of bounds"));
}

TEST_CASE("a misaligned access is caught") {
  const Buffer y = floats(128);
  CHECK_ALL(faults(misaligned, "misaligned", y.as<float>()),
            contains("kernel misaligned, block (") && contains("thread ") &&
                contains("misaligned: writes 16 bytes at an address that is "));
  CHECK_ALL(faults(misaligned_rows, "misaligned_rows"), contains("misaligned: reads 16 bytes"));
  CHECK_ALL(faults(one_byte, "one_byte"), contains("writes one byte of shared memory"));
}

TEST_CASE("shared memory over the limit is refused") {
  simt::Session session;
  const auto launch = [](int block, size_t shared) {
    simt::launch(divergent_barrier,
                 {.grid = {1}, .block = block, .shared_bytes = shared, .name = "too_large"});
  };
  CHECK_THROWS_WITH(launch(64, 99 * 1024 + 1), contains("kernel too_large: 101377 bytes of shared memory") &&
                                                   contains("over the limit of 101376"));
  CHECK_THROWS_WITH(launch(48, 0), contains("a multiple of 32"));
  CHECK_THROWS_WITH(
      simt::launch(larger_plan, {.grid = {1}, .block = 32, .shared_bytes = sizeof(Plan), .name = "plan"}),
      contains("kernel plan, block (0, 0, 0), thread 0: its shared-memory plan takes 260 bytes"));
}

TEST_CASE("a launch without a session is refused") {
  CHECK_THROWS_WITH(simt::launch(divergent_barrier, {.grid = {1}, .block = 32, .name = "alone"}),
                    contains("no simt::Session open"));
}

TEST_CASE("after a fault the executor runs the next kernel") {
  const Buffer y = floats(64);
  simt::Session session;
  CHECK_THROWS_AS(
      simt::launch(missing_barrier, {.grid = {1}, .block = 64, .shared_bytes = sizeof(Plan), .name = "first"},
                   y.as<float>()),
      Error);
  simt::launch(write_before_start, {.grid = {1}, .block = 64, .name = "second"}, y.as<float>() + 1);
  CHECK(session.report("second").global_writes().bytes == 256);
}
