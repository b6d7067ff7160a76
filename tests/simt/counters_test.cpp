// What the host executor counts, against what the hardware's rules say by hand.
#include "kernels/ptx/ptx.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "kernels/simt/simt.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

Buffer floats(int64_t n) { return Buffer(DType::f32, n, simt::kDeviceMemory); }

template <class T>
__global__ void strided_read(const T* x, int stride) {
  simt::load(x + simt::lane() * stride);
}

template <class T>
struct Plan {
  T x[32 * 33];
};

template <class T>
__global__ void strided_shared(int stride) {
  simt::store<simt::Cache::none>(&simt::shared<Plan<T>>().x[simt::lane() * stride], T{});
}

__global__ void rows_of_matrices(int pitch) {
  auto& plan = simt::shared<Plan<simt::Vec<uint32_t, 4>>>();
  uint32_t r[4];
  ptx::load_matrices<4>(r, &plan.x[simt::lane() * pitch]);
}

__global__ void some_lanes(const float* x) {
  if (simt::lane() % 4 == 0) simt::load(x + simt::lane());
  simt::sync_warp();
  for (int i = 0; i < simt::lane(); ++i) simt::load(x + i);
}

__global__ void async_tail(const float* x) {
  auto& plan = simt::shared<Plan<float>>();
  ptx::copy_async<16>(&plan.x[threadIdx.x * 4], x + threadIdx.x * 4, threadIdx.x < 3 ? 16 : 0);
  ptx::commit_copies();
  ptx::wait_copies<0>();
}

template <class T>
int64_t conflicts(int stride) {
  simt::Session session({.check_races = false});
  simt::launch(strided_shared<T>,
               {.grid = {1}, .block = 32, .shared_bytes = sizeof(Plan<T>), .name = "shared"}, stride);
  return session.report("shared").bank_conflicts();
}

template <class T>
simt::LaunchReport::Traffic read(int stride) {
  const Buffer x = floats(32 * 32);
  simt::Session session;
  simt::launch(strided_read<T>, {.grid = {1}, .block = 32, .name = "read"}, x.as<const T>(), stride);
  return session.report("read").global_reads();
}

}  // namespace

TEST_CASE("bank conflicts follow the access size and the stride") {
  CHECK(conflicts<float>(1) == 0);
  CHECK(conflicts<float>(0) == 0);  // one word for all
  CHECK(conflicts<float>(2) == 1);
  CHECK(conflicts<float>(32) == 31);   // planted: a column of a 32 x 32 tile
  CHECK(conflicts<float>(33) == 0);    // padded
  CHECK(conflicts<uint16_t>(1) == 0);  // two lanes share a word
  CHECK(conflicts<uint16_t>(2) == 0);
  CHECK(conflicts<uint16_t>(4) == 1);
  using Vec2 = simt::Vec<float, 2>;
  CHECK(conflicts<Vec2>(1) == 0);  // two half-warps, each a pass
  CHECK(conflicts<Vec2>(2) == 2);  // one more pass for each
  CHECK(conflicts<Vec2>(16) == 30);
  using Vec4 = simt::Vec<float, 4>;
  CHECK(conflicts<Vec4>(1) == 0);   // four quarter-warps
  CHECK(conflicts<Vec4>(8) == 28);  // all eight lanes of a quarter on the same four banks
  CHECK(conflicts<Vec4>(9) == 0);
}

TEST_CASE("ldmatrix takes a pass a matrix, if its rows lie on different banks") {
  const auto matrix_conflicts = [](int pitch) {
    simt::Session session;
    simt::launch(rows_of_matrices, {.grid = {1}, .block = 32, .shared_bytes = 32 * 33 * 16, .name = "rows"},
                 pitch);
    return session.report("rows").bank_conflicts();
  };
  CHECK(matrix_conflicts(1) == 0);
  CHECK(matrix_conflicts(8) == 28);  // planted: rows of 128 bytes, not swizzled
  CHECK(matrix_conflicts(9) == 0);
}

TEST_CASE("sectors are counted by warp and instruction") {
  CHECK(read<float>(1).sectors == 4);
  CHECK(read<float>(1).sectors_needed == 4);
  CHECK(read<float>(8).sectors == 32);  // planted: a sector a lane
  CHECK(read<float>(8).sectors_needed == 4);
  CHECK(read<float>(0).sectors == 1);
  CHECK(read<float>(0).sectors_needed == 1);
  CHECK(read<simt::Vec<float, 4>>(1).sectors == 16);
  CHECK(read<simt::Vec<float, 4>>(1).bytes == 512);
  CHECK(read<simt::Vec<float, 4>>(2).sectors == 32);
  CHECK(read<simt::Vec<float, 4>>(2).sectors_needed == 16);
}

TEST_CASE("lanes that take part are told from those that do not") {
  const Buffer x = floats(64);
  simt::in_all_orders([&](simt::Session& session) {
    simt::launch(some_lanes, {.grid = {1}, .block = 32, .name = "some"}, x.as<float>());
    const auto& sites = session.report("some").sites;
    REQUIRE(sites.size() == 2);
    CHECK(sites[0].instructions == 1);
    CHECK(sites[0].lanes == 8);
    CHECK(sites[0].sectors == 4);
    CHECK(sites[1].instructions == 31);  // as many as the lane that goes round most
    CHECK(sites[1].lanes == 31 * 32 / 2);
    CHECK(sites[1].sectors == 31);
  });
}

TEST_CASE("an asynchronous copy counts its source and its target") {
  const Buffer x = floats(12);  // the other lanes' sources do not exist, and are not read
  simt::Session session;
  simt::launch(async_tail, {.grid = {1}, .block = 32, .shared_bytes = sizeof(Plan<float>), .name = "async"},
               x.as<float>());
  const auto& r = session.report("async");
  CHECK(r.global_reads().bytes == 48);
  CHECK(r.global_reads().sectors == 2);
  CHECK(r.bank_conflicts() == 0);
}

TEST_CASE("counts do not depend on how many host threads ran the blocks") {
  const Buffer x = floats(32 * 32);
  std::vector<std::string> texts;
  for (const int workers : {1, 4}) {
    simt::Session session({.workers = workers});
    simt::launch(strided_read<float>, {.grid = {50}, .block = 96, .name = "read"}, x.as<const float>(), 3);
    texts.push_back(session.report("read").text());
  }
  CHECK(texts[0] == texts[1]);
  CHECK(texts[0].find("150 instructions, 4800 lanes, 1800 sectors, 600 needed") != std::string::npos);
}

TEST_CASE("counting and race checks can be turned off") {
  const Buffer x = floats(64);
  simt::Session session({.check_races = false, .count = false});
  simt::launch(some_lanes, {.grid = {1}, .block = 32, .name = "some"}, x.as<float>());
  CHECK(session.report("some").sites.empty());
}

TEST_CASE("a buffer's sectors are told from those touched again") {
  const Buffer x = floats(64), y = floats(64);
  simt::Session session;
  simt::launch(strided_read<float>, {.grid = {3}, .block = 64, .name = "read"}, x.as<const float>(), 1);
  const auto& r = session.report("read");
  CHECK(r.buffer(x.data()).read == 3 * 2 * 4);  // every warp of every block reads the same 128 bytes
  CHECK(r.buffer(x.data()).distinct_read == 4);
  CHECK(r.buffer(x.data()).written == 0);
  CHECK(r.buffer(y.data()).read == 0);
}
