// What shared memory holds before anyone wrote to it, and when asynchronous copies land in it.
#include <cmath>

#include "kernels/common/bf16.h"
#include "kernels/ptx/ptx.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "kernels/simt/simt.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

Buffer floats(int64_t n) { return Buffer(DType::f32, n, simt::kDeviceMemory); }

Buffer counted(int64_t n) {  // 1, 2, 3, ...
  Buffer b = floats(n);
  for (int64_t i = 0; i < n; ++i) b.set(i, double(i + 1));
  return b;
}

struct Plan {
  alignas(16) float x[96];
  bf16 halves[64];
};

// Every block finds what it may, then leaves numbers behind for the next.
__global__ void first_values(float* single, float* half) {
  auto& plan = simt::shared<Plan>();
  const int i = int(threadIdx.x), at = int(blockIdx.x) * 64 + i;
  simt::store(single + at, simt::load(&plan.x[i]));
  simt::store(half + at, float(simt::load(&plan.halves[i])));
  simt::store(&plan.x[i], 1.f);
  simt::store(&plan.halves[i], bf16(1.f));
}

// Three copies, the last one long without a group, and what is there before and after every wait.
__global__ void landings(const float* x, float* seen) {
  auto& plan = simt::shared<Plan>();
  const int lane = simt::lane();
  float* mine = plan.x + lane;
  const auto look = [&](int when) {
    for (int group = 0; group < 3; ++group) {
      simt::store(seen + (when * 3 + group) * 32 + lane, simt::load(mine + group * 32));
    }
  };
  for (int group = 0; group < 2; ++group) {
    ptx::copy_async<4>(mine + group * 32, x + group * 32 + lane);
    ptx::commit_copies();
  }
  ptx::copy_async<4>(mine + 64, x + 64 + lane);
  look(0);
  ptx::wait_copies<1>();
  look(1);
  ptx::wait_copies<0>();  // the copy that is in no group is not waited for
  look(2);
  ptx::commit_copies();
  look(3);
  ptx::wait_copies<0>();
  look(4);
}

// Lane i copies `bytes`, of which i % (bytes + 1) come from x.
template <int bytes>
__global__ void partial_copies(const unsigned char* x, unsigned char* y) {
  struct Bytes {
    alignas(16) uint16_t x[32 * bytes / 2];
  };
  auto& plan = simt::shared<Bytes>();
  const int lane = simt::lane();
  uint16_t* mine = plan.x + lane * bytes / 2;
  ptx::copy_async<bytes>(mine, x + lane * bytes, lane % (bytes + 1));
  ptx::commit_copies();
  ptx::wait_copies<0>();
  for (int i = 0; i < bytes / 2; ++i) {
    simt::store(reinterpret_cast<uint16_t*>(y) + lane * bytes / 2 + i, simt::load(mine + i));
  }
}

template <int bytes>
void check_partial_copies() {
  INFO(bytes << " bytes");
  const Buffer x(DType::i32, 32 * bytes / 4, simt::kDeviceMemory),
      y(DType::i32, 32 * bytes / 4, simt::kDeviceMemory);
  const auto value = [](int i) { return (unsigned char)(i % 255 + 1); };
  for (int i = 0; i < 32 * bytes; ++i) x.as<unsigned char>()[i] = value(i);
  simt::in_all_orders([&](simt::Session&) {
    simt::launch(partial_copies<bytes>,
                 {.grid = {1}, .block = 32, .shared_bytes = 32 * bytes, .name = "partial"},
                 x.as<unsigned char>(), y.as<unsigned char>());
    simt::finish();
    for (int i = 0; i < 32 * bytes; ++i) {
      const bool copied = i % bytes < i / bytes % (bytes + 1);
      REQUIRE(int(y.as<unsigned char>()[i]) == (copied ? value(i) : 0));
    }
  });
}

}  // namespace

TEST_CASE("shared memory starts as NaN in every block") {
  simt::in_all_orders([](simt::Session&) {
    const Buffer single = counted(3 * 64), half = counted(3 * 64);
    simt::launch(first_values, {.grid = {3}, .block = 64, .shared_bytes = sizeof(Plan), .name = "first"},
                 single.as<float>(), half.as<float>());
    simt::finish();
    for (int64_t i = 0; i < 3 * 64; ++i) {
      REQUIRE(std::isnan(single.get(i)));
      REQUIRE(std::isnan(half.get(i)));
    }
  });
}

TEST_CASE("asynchronous copies land at the wait for their group and not before") {
  const Buffer x = counted(96);
  // Without race checks, which would refuse to look before a wait.
  simt::in_all_orders(
      [&](simt::Session&) {
        const Buffer seen = floats(5 * 3 * 32);
        simt::launch(landings, {.grid = {1}, .block = 32, .shared_bytes = sizeof(Plan), .name = "landings"},
                     x.as<float>(), seen.as<float>());
        simt::finish();
        const int landed[5] = {0, 1, 2, 2, 3};  // groups, the oldest first
        for (int when = 0; when < 5; ++when) {
          for (int group = 0; group < 3; ++group) {
            for (int lane = 0; lane < 32; ++lane) {
              INFO("look " << when << ", group " << group << ", lane " << lane);
              const double found = seen.get((when * 3 + group) * 32 + lane);
              if (group < landed[when]) {
                REQUIRE(found == x.get(group * 32 + lane));
              } else {
                REQUIRE(std::isnan(found));
              }
            }
          }
        }
      },
      {.check_races = false});
}

TEST_CASE("an asynchronous copy's bytes past its source are zero") {
  check_partial_copies<4>();
  check_partial_copies<8>();
  check_partial_copies<16>();
}
