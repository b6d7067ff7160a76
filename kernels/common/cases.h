// What the <op>_cases.h files share. Each op's file declares its cases (shapes and attributes), a Problem
// that holds one case's arrays in some device's memory and gives the argument structs, and what the reference
// says should come out, with the tolerance. Tests and benchmarks of every device read the same files.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/common/buffer.h"

namespace genesis {

// Largest relative error of one rounding to nearest.
constexpr double unit_roundoff(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-24; }

// |found - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

// The error of a value that is summed in fp32 from `terms` products in any order, rounded at most `roundings`
// more times on the way, and stored as `dtype`. `magnitude` bounds the sum of the terms' sizes, which an
// error can be large against where terms cancel (Higham 2002, "Accuracy and Stability of Numerical
// Algorithms", 3.1).
inline Tolerance rounding_tolerance(DType dtype, double magnitude, int64_t terms, int64_t roundings = 4) {
  return {unit_roundoff(dtype), unit_roundoff(DType::f32) * double(terms + roundings) * magnitude};
}

// One output of an op: what a device wrote and what the reference says.
struct Result {
  std::string name;
  const Buffer* found = nullptr;
  std::vector<double> expected;
  Tolerance tolerance;
};

// Scratch memory of `bytes`; a null buffer if none is needed.
inline Buffer workspace_buffer(size_t bytes, const Memory& memory) {
  return bytes ? Buffer(DType::i32, int64_t(bytes + 3) / 4, memory) : Buffer();
}

inline double largest(const std::vector<double>& values) {
  double m = 0;
  for (double v : values) m = std::max(m, std::abs(v));
  return m;
}

}  // namespace genesis
