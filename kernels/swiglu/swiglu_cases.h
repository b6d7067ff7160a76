// SwiGLU's cases: what tests and benchmarks of every device run it on.
#pragma once

#include "kernels/common/cases.h"
#include "kernels/swiglu/swiglu.h"
#include "kernels/swiglu/swiglu_ref.h"

namespace genesis {

struct SwiGluCase {
  const char* name;
  int64_t rows, F;
  float clamp = 0.f;
  double deviation = 1.5;  // of gate and up
};

inline constexpr SwiGluCase kSwiGluCases[] = {
    {"one element", 1, 1},
    {"one row", 1, 64},
    {"a vector and a bit", 5, 17},
    {"quickstart width", 40, 704},
    {"odd width", 19, 1001},
    {"clamped", 20, 300, 1.f},
    {"far out, where exp overflows", 7, 160, 0.f, 100.0},
    {"far out and clamped", 7, 160, 7.f, 100.0},
    {"1B width", 3, 5632},
};

inline constexpr SwiGluCase kSwiGluBenchCases[] = {
    {"quickstart", 4096, 704},
    {"small", 4096, 1024},
    {"genesis_1b", 8192, 4736},
    {"genesis_1b_run1", 8192, 5632},
};

struct SwiGluProblem {
  SwiGluCase c;
  DType dtype;
  Buffer gate_up, y, dy, d_gate_up, y_again;

  SwiGluProblem(const SwiGluCase& c, DType dtype, const Memory& memory = kHostMemory) : c(c), dtype(dtype) {
    for (Buffer* b : {&y, &dy, &y_again}) *b = Buffer(dtype, c.rows * c.F, memory);
    for (Buffer* b : {&gate_up, &d_gate_up}) *b = Buffer(dtype, c.rows * 2 * c.F, memory);
    gate_up.fill_normal(1, 0, 0, c.deviation);
    dy.fill_normal(1, 1);
    // Limits that are reached exactly let no gradient through.
    if (c.clamp > 0) {
      gate_up.set(0, c.clamp);
      gate_up.set(c.F, c.clamp);
      gate_up.set(c.F + 1, -c.clamp);
    }
  }

  SwiGluForward forward() const { return {c.rows, c.F, dtype, c.clamp, gate_up.data(), y.data()}; }
  SwiGluBackward backward() const {
    return {c.rows, c.F, dtype, c.clamp, dy.data(), gate_up.data(), d_gate_up.data(), y_again.data()};
  }

  // Bytes that reading every input once and writing every output once moves.
  double forward_bytes() const { return 3.0 * double(c.rows * c.F) * size_of(dtype); }
  double backward_bytes() const { return 6.0 * double(c.rows * c.F) * size_of(dtype); }
};

// A sigmoid within 4 units of the last place, and the products around it.
inline constexpr int64_t kSwiGluRoundings = 16;

inline std::vector<Result> swiglu_forward_results(const SwiGluProblem& p) {
  const auto gate_up = p.gate_up.to_double();
  std::vector<double> y(size_t(p.y.size()));
  ref::swiglu_forward(p.c.rows, p.c.F, p.c.clamp, gate_up.data(), y.data());
  // No sum, so no cancellation: the error is relative. A sigmoid below the smallest normal number may be
  // lost.
  const double relative = unit_roundoff(p.dtype) + kSwiGluRoundings * unit_roundoff(DType::f32);
  const double lost = 0x1p-126 * largest(gate_up) * largest(gate_up);
  return {{"y", &p.y, std::move(y), {relative, lost}}};
}

inline std::vector<Result> swiglu_backward_results(const SwiGluProblem& p) {
  const auto gate_up = p.gate_up.to_double(), dy = p.dy.to_double();
  std::vector<double> d_gate_up(gate_up.size()), y(dy.size());
  ref::swiglu_backward(p.c.rows, p.c.F, p.c.clamp, dy.data(), gate_up.data(), d_gate_up.data(), y.data());
  // s + g s (1 - s) cancels where g is negative; its terms are at most 1 and 0.3 there.
  const double magnitude = largest(dy) * largest(gate_up);
  return {{"d_gate_up", &p.d_gate_up, std::move(d_gate_up),
           rounding_tolerance(p.dtype, magnitude, 1, kSwiGluRoundings)},
          {"y, computed again", &p.y_again, std::move(y), swiglu_forward_results(p).front().tolerance}};
}

}  // namespace genesis
