// The elementwise ops' cases: what tests and benchmarks of every device run them on.
#pragma once

#include "kernels/common/cases.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/elementwise_ref.h"

namespace genesis {

inline constexpr int64_t kElementwiseCases[] = {0, 1, 7, 16, 17, 1000, 32768, 70001};  // lengths
inline constexpr int64_t kElementwiseBenchCases[] = {4096 * 256, 8192 * 2048};

struct ElementwiseProblem {
  int64_t n;
  DType dtype;
  Buffer a, b, y;

  ElementwiseProblem(int64_t n, DType dtype, const Memory& memory = kHostMemory) : n(n), dtype(dtype) {
    for (Buffer* x : {&a, &b, &y}) *x = Buffer(dtype, n, memory);
    a.fill_normal(1, 0);
    b.fill_normal(1, 1);
  }

  Add add() const { return {n, dtype, a.data(), b.data(), y.data()}; }
  // Into `to`, of any type.
  Cast cast(const Buffer& to) const { return {n, dtype, to.dtype(), a.data(), to.data()}; }
  Zero zero() const { return {n * int64_t(size_of(dtype)), y.data()}; }

  // Bytes that a call has to move; zero's are the array's.
  double array_bytes() const { return double(n) * double(size_of(dtype)); }
  double add_bytes() const { return 3 * array_bytes(); }
  double cast_bytes(DType to) const { return array_bytes() + double(n) * double(size_of(to)); }
};

inline Result add_result(const ElementwiseProblem& p) {
  const auto a = p.a.to_double(), b = p.b.to_double();
  std::vector<double> y(a.size());
  ref::add(p.n, a.data(), b.data(), y.data());
  // The fp32 sum's rounding and the storage type's.
  return {"add", &p.y, std::move(y), rounding_tolerance(p.dtype, largest(y), 1, 0)};
}

// Rounding to nearest even, which Buffer::set does.
inline Result cast_result(const ElementwiseProblem& p, const Buffer& to) {
  Buffer rounded(to.dtype(), p.n);
  for (int64_t i = 0; i < p.n; ++i) rounded.set(i, p.a.get(i));
  return {"cast", &to, rounded.to_double(), {}};
}

}  // namespace genesis
