// The host bodies of ldmatrix and mma against the PTX manual's formulas for where an element lives.
#include <bit>
#include <cmath>

#include "kernels/ptx/ptx.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "kernels/simt/simt.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

// PTX ISA 9.2, 9.7.14.5.8: element i of a thread's fragment.
struct Place {
  int row, column;
};
Place place_in_a(int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  return {(i < 2 || (i >= 4 && i < 6)) ? group : group + 8, in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
Place place_in_b(int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  return {in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
}
Place place_in_d(int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  return {i < 2 ? group : group + 8, in_group * 2 + (i & 1)};
}

Buffer words(int64_t n) { return Buffer(DType::i32, n, simt::kDeviceMemory); }
Buffer normal(DType dtype, int64_t n, uint64_t stream) {
  Buffer b(dtype, n, simt::kDeviceMemory);
  b.fill_normal(1, stream);
  return b;
}

// Every lane's registers, loaded and stored as they lie in memory: [32][registers].
__global__ void mma_kernel(const uint32_t* a, const uint32_t* b, float* d) {
  const int lane = simt::lane();
  uint32_t ra[4], rb[2];
  float rd[4];
  for (int i = 0; i < 4; ++i) ra[i] = simt::load(a + lane * 4 + i);
  for (int i = 0; i < 2; ++i) rb[i] = simt::load(b + lane * 2 + i);
  for (int i = 0; i < 4; ++i) rd[i] = simt::load(d + lane * 4 + i);
  ptx::mma_m16n8k16(rd, ra, rb);
  for (int i = 0; i < 4; ++i) simt::store(d + lane * 4 + i, rd[i]);
}

constexpr int kPitch = 24;  // elements from row to row of the matrices in shared memory

struct MatricesPlan {
  alignas(16) uint16_t rows[32 * kPitch];
};

// Shared element e of row r holds 100 r + e; the registers of every lane go to r.
template <int n, bool transposed>
__global__ void load_matrices_kernel(uint32_t* out) {
  auto& plan = simt::shared<MatricesPlan>();
  const int lane = simt::lane();
  for (int e = 0; e < kPitch; ++e) simt::store(&plan.rows[lane * kPitch + e], uint16_t(100 * lane + e));
  simt::sync_warp();
  uint32_t r[n];
  // Rows in an order of their own, from the middle of the pitch.
  ptx::load_matrices<n, transposed>(r, &plan.rows[(lane ^ 5) * kPitch + 8]);
  for (int i = 0; i < n; ++i) simt::store(out + lane * n + i, r[i]);
}

template <int n, bool transposed>
void check_load_matrices() {
  INFO("x" << n << (transposed ? ".trans" : ""));
  simt::in_all_orders([](simt::Session& session) {
    const Buffer out = words(32 * n);
    simt::launch(load_matrices_kernel<n, transposed>,
                 {.grid = {1}, .block = 32, .shared_bytes = sizeof(MatricesPlan), .name = "load_matrices"},
                 out.as<uint32_t>());
    simt::finish();
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < n; ++i) {
        for (int half = 0; half < 2; ++half) {
          // 9.7.14.5.15: a thread's register holds two neighbours of row lane / 4, or of that column.
          const int across = lane / 4, along = lane % 4 * 2 + half;
          const int row = transposed ? along : across, element = transposed ? across : along;
          const uint32_t expected = uint32_t(100 * ((8 * i + row) ^ 5) + 8 + element);
          REQUIRE((out.as<uint32_t>()[lane * n + i] >> 16 * half & 0xffff) == expected);
        }
      }
    }
    for (const simt::SiteCount& s : session.report("load_matrices").sites) {
      if (s.kind == "matrix") CHECK(s.lanes == 8 * n);
    }
  });
}

}  // namespace

TEST_CASE("mma.m16n8k16 is a matrix product of fragments laid out as the manual says") {
  const Buffer A = normal(DType::bf16, 16 * 16, 0), B = normal(DType::bf16, 16 * 8, 1),
               C = normal(DType::f32, 16 * 8, 2);
  simt::in_all_orders([&](simt::Session& session) {
    Buffer a(DType::bf16, 32 * 8, simt::kDeviceMemory), b(DType::bf16, 32 * 4, simt::kDeviceMemory),
        d(DType::f32, 32 * 4, simt::kDeviceMemory);
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 8; ++i) {
        const Place p = place_in_a(lane, i);
        a.set(lane * 8 + i, A.get(p.row * 16 + p.column));
      }
      for (int i = 0; i < 4; ++i) {
        const Place p = place_in_b(lane, i), q = place_in_d(lane, i);
        b.set(lane * 4 + i, B.get(p.row * 8 + p.column));
        d.set(lane * 4 + i, C.get(q.row * 8 + q.column));
      }
    }
    simt::launch(mma_kernel, {.grid = {1}, .block = 32, .name = "mma"}, a.as<uint32_t>(), b.as<uint32_t>(),
                 d.as<float>());
    simt::finish();
    CHECK(session.report("mma").mma == 1);
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const Place q = place_in_d(lane, i);
        double expected = C.get(q.row * 8 + q.column), magnitude = std::abs(expected);
        for (int k = 0; k < 16; ++k) {
          const double product = A.get(q.row * 16 + k) * B.get(k * 8 + q.column);
          expected += product;
          magnitude += std::abs(product);
        }
        REQUIRE(std::abs(d.get(lane * 4 + i) - expected) <= 17 * 0x1p-24 * magnitude);
      }
    }
  });
}

TEST_CASE("ldmatrix hands out rows and columns as the manual says") {
  check_load_matrices<1, false>();
  check_load_matrices<2, false>();
  check_load_matrices<4, false>();
  check_load_matrices<1, true>();
  check_load_matrices<2, true>();
  check_load_matrices<4, true>();
}
