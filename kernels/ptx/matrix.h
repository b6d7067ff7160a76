// Matrix fragments of a warp. PTX ISA 9.2: 9.7.14.5.8 "Matrix Fragments for mma.m16n8k16 with floating point
// type" and 9.7.14.5.15 "ldmatrix"; sm_80.
// The element-to-lane maps below are the manual's; tests/simt/matrix_test.cpp holds the host bodies to them.
#pragma once

#include <cstdint>

#include "kernels/common/bf16.h"
#include "kernels/simt/qualifiers.h"
#include "kernels/simt/site.h"

#ifndef __CUDACC__
#include "kernels/simt/host/hooks.h"
#endif

namespace genesis::ptx {

// Loads n (1, 2 or 4) matrices of 8 x 8 two-byte elements from shared memory. Row r of matrix i is the 16
// bytes at the `row` of lane 8 i + r; the other lanes' addresses are not read. Register i of a lane then
// holds of matrix i, with g = lane / 4 and t = lane % 4, the elements (g, 2t) in its low and (g, 2t + 1) in
// its high half; with `transposed` the elements (2t, g) and (2t + 1, g).
template <int n, bool transposed = false>
__device__ inline void load_matrices(uint32_t (&r)[n], const void* row,
                                     [[maybe_unused]] simt::Site site = simt::Site::current()) {
  static_assert(n == 1 || n == 2 || n == 4);
#ifdef __CUDACC__
  const auto address = uint32_t(__cvta_generic_to_shared(row));
  if constexpr (n == 1 && !transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (n == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (n == 2 && !transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  } else if constexpr (n == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  } else if constexpr (!transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
#else
  struct alignas(16) Lane {
    uint16_t row[8];
    uint32_t* r;
  } mine{{}, r};
  if (simt::host::lane() < 8 * n) {
    simt::host::read(mine.row, row, sizeof(mine.row), simt::host::Kind::matrix, site);
  }
  simt::host::together("ldmatrix", ~0u, mine, site, [](Lane* const* lanes) {
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int i = 0; i < n; ++i) {
        const auto element = [&](int row, int column) { return uint32_t(lanes[8 * i + row]->row[column]); };
        lanes[lane]->r[i] = transposed ? element(2 * t, g) | element(2 * t + 1, g) << 16
                                       : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
      }
    }
  });
#endif
}

// d += A B with A 16 x 16 and B 16 x 8 in bf16, d 16 x 8 in fp32. With g = lane / 4 and t = lane % 4 a lane
// holds (row, column), the first element of a pair in the low half of its word:
//   a[0]  (g, 2t) (g, 2t + 1)           a[1]  (g + 8, 2t) (g + 8, 2t + 1)
//   a[2]  (g, 2t + 8) (g, 2t + 9)       a[3]  (g + 8, 2t + 8) (g + 8, 2t + 9)
//   b[0]  (2t, g) (2t + 1, g)           b[1]  (2t + 8, g) (2t + 9, g)
//   d[0]  (g, 2t)                       d[1]  (g, 2t + 1)
//   d[2]  (g + 8, 2t)                   d[3]  (g + 8, 2t + 1)
// The hardware does not promise an order of its sums; the host adds k = 0 .. 15 in fp32.
__device__ inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                    [[maybe_unused]] simt::Site site = simt::Site::current()) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  struct Lane {
    float* d;
    const uint32_t *a, *b;
  } mine{d, a, b};
  simt::host::together("mma", ~0u, mine, site, [](Lane* const* lanes) {
    float A[16][16], B[16][8];
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int half = 0; half < 2; ++half) {
        const auto value = [&](uint32_t pair) {
          return float(std::bit_cast<bf16>(uint16_t(pair >> 16 * half)));
        };
        for (int i = 0; i < 4; ++i) A[g + i % 2 * 8][2 * t + half + i / 2 * 8] = value(lanes[lane]->a[i]);
        for (int i = 0; i < 2; ++i) B[2 * t + half + i * 8][g] = value(lanes[lane]->b[i]);
      }
    }
    for (int row = 0; row < 16; ++row) {
      float sum[8];
      for (int c = 0; c < 8; ++c) sum[c] = lanes[row % 8 * 4 + c / 2]->d[row / 8 * 2 + c % 2];
      for (int k = 0; k < 16; ++k) {
        for (int c = 0; c < 8; ++c) sum[c] += A[row][k] * B[k][c];
      }
      for (int c = 0; c < 8; ++c) lanes[row % 8 * 4 + c / 2]->d[row / 8 * 2 + c % 2] = sum[c];
    }
    simt::host::count_mma();
  });
#endif
}

}  // namespace genesis::ptx
