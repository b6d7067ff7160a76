// The rotary embedding's cases: what tests and benchmarks of every device run it on.
#pragma once

#include "kernels/common/cases.h"
#include "kernels/common/random.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_ref.h"

namespace genesis {

struct RopeCase {
  const char* name;
  int64_t rows, H, KV, K;
  bool interleaved = false, inverse = false;
  int32_t farthest = 2048;  // positions are below it
  float theta = 500000.f;
};

inline constexpr RopeCase kRopeCases[] = {
    {"one row", 1, 1, 1, 2},
    {"quickstart", 130, 4, 2, 64},
    {"quickstart, inverse", 130, 4, 2, 64, false, true},
    {"interleaved", 130, 4, 2, 64, true},
    {"interleaved, inverse", 130, 4, 2, 64, true, true},
    {"odd half", 65, 3, 1, 10},
    {"odd half, interleaved", 65, 3, 1, 10, true},
    {"largest head", 20, 2, 1, 256},
    {"far", 70, 2, 1, 128, false, false, 131072},
    {"small theta", 70, 2, 1, 64, false, false, 2048, 10000.f},
};

inline constexpr RopeCase kRopeBenchCases[] = {
    {"quickstart", 4096, 5, 1, 64},
    {"genesis_1b", 8192, 12, 6, 128},
    {"genesis_1b_run1", 8192, 16, 4, 128},
    {"interleaved", 8192, 12, 6, 128, true},
};

struct RopeProblem {
  RopeCase c;
  DType dtype;
  Buffer positions, qkv;

  RopeProblem(const RopeCase& c, DType dtype, const Memory& memory = kHostMemory)
      : c(c),
        dtype(dtype),
        positions(DType::i32, c.rows, memory),
        qkv(dtype, c.rows * (c.H + 2 * c.KV) * c.K, memory) {
    qkv.fill_normal(1, 0);
    for (int64_t row = 0; row < c.rows; ++row) {  // the farthest first
      const uint32_t back = row ? random_bits(1, 1, uint64_t(row)) % uint32_t(c.farthest) : 0;
      positions.as<int32_t>()[row] = c.farthest - 1 - int32_t(back);
    }
  }

  Rope rope() const {
    return {c.rows,    c.H, c.KV, c.K, dtype, c.interleaved, c.inverse, c.theta, positions.as<int32_t>(),
            qkv.data()};
  }
  // Queries and keys read once and written once, and the positions.
  double bytes() const {
    return double(c.rows) * (4. + 2. * double((c.H + c.KV) * c.K) * double(size_of(dtype)));
  }
};

// Call before the rotation. Angles count as exact: every device takes them from frequencies in double.
inline Result rope_result(const RopeProblem& p) {
  auto expected = p.qkv.to_double();
  const double largest_pair = 2 * largest(expected);
  ref::rope(p.rope(), expected.data());
  return {"qkv", &p.qkv, std::move(expected), rounding_tolerance(p.dtype, largest_pair, 2)};
}

}  // namespace genesis
