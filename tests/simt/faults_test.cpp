// Kernels with a planted fault: the executor must catch each, in every thread order, and say where it is.
#include "kernels/ptx/ptx.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "kernels/simt/simt.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

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
    messages.push_back(message_of([&] {
      simt::launch(kernel, {.grid = {2, 1}, .block = 64, .shared_bytes = sizeof(Plan), .name = name},
                   args...);
    }));
  });
  return messages;
}

// Each message says each of these.
void check_all(const std::vector<std::string>& messages, std::initializer_list<const char*> parts) {
  for (const std::string& message : messages) {
    for (const char* part : parts) CHECK(lacks(message, part) == "");
  }
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
  check_all(faults(missing_barrier, "missing_barrier", y.as<float>()),
            {"kernel missing_barrier, block (", ", thread ", " shared memory that thread ",
             "no barrier between", "faults_test.cpp:"});
  check_all(faults(missing_barrier_before_reuse, "reuse", y.as<float>()), {"race: "});
  check_all(faults(missing_sync_warp, "missing_sync_warp", y.as<float>()), {"race: "});
}

TEST_CASE("two threads that write the same place are caught") {
  check_all(faults(write_race, "write_race", nullptr),
            {"kernel write_race, block (", "race: writes shared memory that thread ", " wrote "});
}

TEST_CASE("a missing wait for an asynchronous copy is caught") {
  const Buffer x = floats(64), y = floats(64);
  for (const auto& messages : {faults(missing_wait, "missing_wait", y.as<float>(), x.as<float>()),
                               faults(wait_for_too_few, "missing_wait", y.as<float>(), x.as<float>())}) {
    check_all(messages, {"kernel missing_wait, block (", "thread ", "missing wait: reads shared memory"});
  }
  check_all(faults(missing_barrier_after_wait, "after_wait", y.as<float>(), x.as<float>()), {"race: "});
}

TEST_CASE("a barrier that part of the block does not reach is caught") {
  check_all(faults(divergent_barrier, "divergent_barrier"),
            {"kernel divergent_barrier, block (", "thread ", "divergent barrier", "thread 37 has ended"});
  check_all(faults(two_barriers, "two_barriers"), {"divergent barrier", "is at another one"});
}

TEST_CASE("a lane missing from a warp operation is caught") {
  check_all(faults(missing_lane, "missing_lane"),
            {"kernel missing_lane, block (", "thread 32: lane missing from shuffle", "thread 37 has ended"});
  check_all(faults(lane_at_barrier, "lane_at_barrier"),
            {"lane missing from shuffle", "thread 37 is at a barrier"});
  check_all(faults(two_shuffles, "two_shuffles"), {"while lanes of its warp are at shuffle"});
  check_all(faults(not_in_mask, "not_in_mask"), {"a lane that is not in its mask"});
  check_all(faults(shuffle_from_outside, "outside"), {"asks for lane 20, which is not in the mask"});
}

TEST_CASE("an access out of bounds is caught") {
  const Buffer x = floats(64), y = floats(64);
  check_all(faults(read_past_end, "read_past_end", y.as<float>(), x.as<float>()),
            {"kernel read_past_end, block (",
             "thread 63: out of bounds: reads 4 bytes at offset 256 of a buffer of 256 bytes"});
  check_all(faults(write_before_start, "write_before_start", y.as<float>()),
            {"thread 0: out of bounds: writes 4 bytes at "});
  check_all(faults(past_the_plan, "past_the_plan"),
            {"thread 63: out of bounds: writes 4 bytes at offset 256 of 256 bytes of shared memory"});
  std::vector<float> host(64);
  check_all(faults(read_past_end, "host_pointer", y.as<float>(), host.data()), {"not in device memory"});
}

TEST_CASE("a pointer to a buffer that is gone is caught") {
  const float* stale = floats(64).as<float>();
  const Buffer y = floats(64);
  check_all(faults(read_past_end, "stale", y.as<float>(), stale), {"out of bounds"});
}

TEST_CASE("a misaligned access is caught") {
  const Buffer y = floats(128);
  check_all(faults(misaligned, "misaligned", y.as<float>()),
            {"kernel misaligned, block (", "thread ", "misaligned: writes 16 bytes at an address that is "});
  check_all(faults(misaligned_rows, "misaligned_rows"), {"misaligned: reads 16 bytes"});
  check_all(faults(one_byte, "one_byte"), {"writes one byte of shared memory"});
}

TEST_CASE("a launch over the limits is refused") {
  simt::Session session;
  const auto refusal = [](int block, size_t shared) {
    return message_of([&] {
      simt::launch(divergent_barrier,
                   {.grid = {1}, .block = block, .shared_bytes = shared, .name = "too_large"});
    });
  };
  check_all({refusal(64, 99 * 1024 + 1)},
            {"kernel too_large: 101377 bytes of shared memory", "over the limit of 101376"});
  check_all({refusal(48, 0)}, {"a multiple of 32"});
}

TEST_CASE("a plan larger than the launch gives is caught") {
  check_all(faults(larger_plan, "plan"), {"kernel plan, block (", "thread ",
                                          "its shared-memory plan takes 260 bytes and the launch gives 256"});
}

TEST_CASE("a launch without a session is refused") {
  const auto launch = [] { simt::launch(divergent_barrier, {.grid = {1}, .block = 32, .name = "alone"}); };
  CHECK(lacks(message_of(launch), "no simt::Session open") == "");
}

TEST_CASE("after a fault the executor runs the next kernel") {
  const Buffer y = floats(64);
  simt::Session session;
  CHECK(message_of([&] {
          simt::launch(missing_barrier,
                       {.grid = {1}, .block = 64, .shared_bytes = sizeof(Plan), .name = "first"},
                       y.as<float>());
        }) != "");
  simt::launch(write_before_start, {.grid = {1}, .block = 64, .name = "second"}, y.as<float>() + 1);
  CHECK(session.report("second").global_writes().bytes == 256);
}
