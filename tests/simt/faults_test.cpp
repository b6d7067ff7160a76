// Kernels with a planted fault: the executor must catch each, in every thread order, and say where it is.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

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

// The message of the error that launching the kernel throws, in each order. Each names the kernel, the block
// that ran first in that order, and a thread.
template <class... P>
std::vector<std::string> faults(void (*kernel)(P...), const char* name, std::type_identity_t<P>... args) {
  std::vector<std::string> messages;
  simt::in_all_orders([&](simt::Session& session) {
    const std::string message = message_of([&] {
      simt::launch(kernel, {.grid = {2, 1}, .block = 64, .shared_bytes = sizeof(Plan), .name = name},
                   args...);
    });
    const simt::Order order = session.options().order;
    const std::string block = order == simt::Order::forward   ? "(0, 0, 0)"
                              : order == simt::Order::reverse ? "(1, 0, 0)"
                                                              : "(";
    CHECK(lacks(message, std::string("kernel ") + name + ", block " + block) == "");
    CHECK(lacks(message, ", thread ") == "");
    CHECK(lacks(message, "faults_test.cpp:") == "");
    messages.push_back(message);
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

__global__ void newest_of_two_copies(float* y, const float* x) {
  auto& plan = simt::shared<Plan>();
  if (threadIdx.x >= 32) return;
  for (int i = 0; i < 2; ++i) {
    ptx::copy_async<4>(&plan.x[2 * threadIdx.x + unsigned(i)], x + threadIdx.x);
    ptx::commit_copies();
  }
  ptx::wait_copies<1>();
  for (unsigned i = 0; i < 2; ++i) simt::store(y + threadIdx.x, simt::load(&plan.x[2 * threadIdx.x + i]));
}

__global__ void wait_before_commit(float* y, const float* x) {
  auto& plan = simt::shared<Plan>();
  ptx::copy_async<4>(&plan.x[threadIdx.x], x + threadIdx.x);
  ptx::wait_copies<0>();
  ptx::commit_copies();
  simt::store(y + threadIdx.x, simt::load(&plan.x[threadIdx.x]));
}

__global__ void missing_barrier_before_copy(float* y, const float* x) {
  auto& plan = simt::shared<Plan>();
  const float other = simt::load(&plan.x[threadIdx.x ^ 1]);
  simt::store(y + threadIdx.x, simt::warp_sum(other));  // all have read, but memory is not ordered
  ptx::copy_async<4>(&plan.x[threadIdx.x], x + threadIdx.x);
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

__global__ void two_masks() { simt::shuffle_xor(1.f, 1, simt::lane() % 2 == 0 ? 0x7fffffffu : ~0u); }

// Neither of the two meetings ever holds all its lanes.
__global__ void masks_that_overlap() { simt::shuffle(1.f, simt::lane(), simt::lane() == 0 ? ~0u : ~1u); }

__global__ void lane_missing_from_mma() {
  float d[4] = {};
  const uint32_t a[4] = {}, b[2] = {};
  if (threadIdx.x != 37) ptx::mma_m16n8k16(d, a, b);
}

__global__ void lane_missing_from_ldmatrix() {
  uint32_t r[1];
  if (threadIdx.x != 37) ptx::load_matrices<1>(r, simt::shared<Plan>().x + simt::lane() % 8 * 4);
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

__global__ void read_past_the_plan() { simt::load(simt::shared<Plan>().x + threadIdx.x + 1); }

__global__ void rows_past_the_plan() {
  const float* rows = simt::shared<Plan>().x;
  uint32_t r[4];
  ptx::load_matrices<4>(r, rows + simt::lane() * 4);
}

__global__ void copy_past_end(const float* x) {
  ptx::copy_async<4>(&simt::shared<Plan>().x[threadIdx.x], x + threadIdx.x + 1);
}

__global__ void copy_past_the_plan(const float* x) {
  ptx::copy_async<4>(simt::shared<Plan>().x + threadIdx.x + 1, x + threadIdx.x);
}

__global__ void copy_to_global(float* y, const float* x) {
  ptx::copy_async<4>(y + threadIdx.x, x + threadIdx.x);
}

__global__ void misaligned_copy(const float* x, unsigned to, unsigned from) {
  ptx::copy_async<8>(simt::shared<Plan>().x + to, x + from);
}

__global__ void misaligned_load(const float* x) { simt::load_vec<2>(x + threadIdx.x); }

__global__ void misaligned(float* y) { simt::store_vec(y + threadIdx.x, simt::Vec<float, 4>{}); }

__global__ void global_store_to_shared() {
  simt::store_vec(&simt::shared<Plan>().x[threadIdx.x % 16 * 4], simt::Vec<float, 4>{});
}

__global__ void once_load_of_shared() {
  simt::load_vec<4, simt::Cache::once>(&simt::shared<Plan>().x[threadIdx.x % 16 * 4]);
}

__global__ void shared_store_to_global(float* y) {
  simt::store_vec<simt::Cache::none>(y + threadIdx.x % 16 * 4, simt::Vec<float, 4>{});
}

__global__ void misaligned_rows() {
  uint32_t r[1];
  ptx::load_matrices<1>(r, &simt::shared<Plan>().x[simt::lane() % 8]);
}

__global__ void one_byte() {
  simt::store(reinterpret_cast<uint8_t*>(simt::shared<Plan>().x) + threadIdx.x, uint8_t(0));
}

__global__ void bare_read_of_shared(float* y) {
  simt::store(y + threadIdx.x, simt::shared<Plan>().x[threadIdx.x]);
}

__global__ void bare_write_to_global(float* y) { y[threadIdx.x] = 1.f; }

// How a process ends that does this: its signal, or 0 if it does not die of one.
template <class Call>
int signal_of(const Call& call) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    call();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
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
                               faults(wait_for_too_few, "missing_wait", y.as<float>(), x.as<float>()),
                               faults(newest_of_two_copies, "missing_wait", y.as<float>(), x.as<float>()),
                               faults(wait_before_commit, "missing_wait", y.as<float>(), x.as<float>())}) {
    check_all(messages, {"kernel missing_wait, block (", "thread ", "missing wait: reads shared memory"});
  }
  check_all(faults(missing_barrier_after_wait, "after_wait", y.as<float>(), x.as<float>()), {"race: "});
  check_all(faults(missing_barrier_before_copy, "before_copy", y.as<float>(), x.as<float>()), {"race: "});
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
  check_all(faults(lane_missing_from_mma, "mma"), {"lane missing from mma", "thread 37 has ended"});
  check_all(faults(lane_missing_from_ldmatrix, "ldmatrix"),
            {"lane missing from ldmatrix", "thread 37 has ended"});
}

TEST_CASE("a wrong mask is caught") {
  check_all(faults(two_masks, "two_masks"), {"with another mask"});
  check_all(faults(masks_that_overlap, "overlap"), {"lane missing from shuffle"});
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
  check_all(faults(read_past_the_plan, "read_past_the_plan"),
            {"thread 63: out of bounds: reads 4 bytes at offset 256 of 256 bytes of shared memory"});
  check_all(faults(rows_past_the_plan, "rows"), {"out of bounds: reads 16 bytes at offset "});
  check_all(faults(copy_past_end, "copy_past_end", x.as<float>()),
            {"thread 63: out of bounds: copies from 4 bytes at offset 256 of a buffer of 256 bytes"});
  check_all(faults(copy_past_the_plan, "copy_past_the_plan", x.as<float>()),
            {"thread 63: out of bounds: copies to 4 bytes at offset 256 of 256 bytes of shared memory"});
  check_all(faults(copy_to_global, "copy_to_global", y.as<float>(), x.as<float>()),
            {"an address that is not in shared memory"});
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
  check_all(faults(misaligned_load, "misaligned_load", y.as<float>()),
            {"misaligned: reads 8 bytes at an address that is 4 past a multiple of 8"});
  check_all(faults(misaligned_copy, "to", y.as<float>(), 1u, 0u), {"misaligned: copies to 8 bytes"});
  check_all(faults(misaligned_copy, "from", y.as<float>(), 0u, 1u), {"misaligned: copies from 8 bytes"});
  check_all(faults(misaligned_rows, "misaligned_rows"), {"misaligned: reads 16 bytes"});
  check_all(faults(one_byte, "one_byte"), {"writes one byte of shared memory"});
}

TEST_CASE("a 16-byte access to the other memory than it says is caught") {
  const Buffer y = floats(64);
  check_all(faults(global_store_to_shared, "global_store"), {"16-byte access for global memory alone"});
  check_all(faults(once_load_of_shared, "once_load"), {"16-byte access for global memory alone"});
  check_all(faults(shared_store_to_global, "shared_store", y.as<float>()),
            {"Cache::none to an address that is not in shared memory"});
}

TEST_CASE("an access that goes past load and store dies") {
  const Buffer y = floats(64);
  simt::Session session;
  const auto launch = [&](void (*kernel)(float*)) {
    return signal_of([&] {
      simt::launch(kernel, {.grid = {1}, .block = 64, .shared_bytes = sizeof(Plan), .name = "bare"},
                   y.as<float>());
    });
  };
  CHECK(launch(bare_read_of_shared) == SIGSEGV);
  CHECK(launch(bare_write_to_global) == SIGSEGV);
  const auto read = [&](const float* p) { return signal_of([&] { *const_cast<const volatile float*>(p); }); };
  CHECK(read(y.as<float>()) == 0);
  simt::launch(write_before_start, {.grid = {1}, .block = 32, .name = "queued"}, y.as<float>() + 1);
  CHECK(read(y.as<float>()) == SIGSEGV);  // a host that forgets finish()
  simt::finish();
  CHECK(read(y.as<float>()) == 0);
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
