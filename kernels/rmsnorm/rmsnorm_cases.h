// RMSNorm's cases: what tests and benchmarks of every device run it on.
#pragma once

#include "kernels/common/cases.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rmsnorm/rmsnorm_ref.h"

namespace genesis {

struct RmsNormCase {
  const char* name;
  int64_t rows, D;
  bool residual = true;  // both the forward's residual and the backward's d_residual
  float eps = 1e-5f;
};

inline constexpr RmsNormCase kRmsNormCases[] = {
    {"one row", 1, 64},
    {"one element", 3, 1},
    {"a vector and a bit", 5, 17, false},
    {"quickstart width", 70, 256},
    {"no residual", 70, 256, false},
    {"odd width", 33, 1000},
    {"large eps", 4, 48, true, 0.5f},
    {"1B width", 9, 1536},
    {"widest of a warp", 9, 2048},
    {"widest", 3, 8192},
    {"several rows a warp", 2101, 264},  // on CUDA: 2 forward, 3 backward, the last warp's fewer
    {"several rows a block", 300, 17},   // where a block takes a row at a time
};

inline constexpr RmsNormCase kRmsNormBenchCases[] = {
    {"quickstart", 4096, 256},
    {"small", 4096, 384},
    {"genesis_1b", 8192, 1536},
    {"genesis_1b_run1", 8192, 2048},
};

// One case's arrays. The forward's outputs are the backward's inputs: run forward() first.
struct RmsNormProblem {
  RmsNormCase c;
  DType dtype;
  Buffer x, residual, weight, h, y, rstd;
  Buffer dy, d_residual, dh, d_weight, y_again, workspace;

  RmsNormProblem(const RmsNormCase& c, DType dtype, size_t workspace_bytes,
                 const Memory& memory = kHostMemory)
      : c(c), dtype(dtype) {
    const int64_t n = c.rows * c.D;
    for (Buffer* b : {&x, &h, &y, &dy, &dh, &y_again}) *b = Buffer(dtype, n, memory);
    for (Buffer* b : {&residual, &d_residual}) *b = c.residual ? Buffer(dtype, n, memory) : Buffer();
    weight = Buffer(dtype, c.D, memory);
    rstd = Buffer(DType::f32, c.rows, memory);
    d_weight = Buffer(DType::f32, c.D, memory);
    workspace = workspace_buffer(workspace_bytes, memory);
    x.fill_normal(1, 0, 0.2, 2.0);
    residual.fill_normal(1, 1);
    weight.fill_normal(1, 2, 1.0, 0.3);
    dy.fill_normal(1, 3);
    d_residual.fill_normal(1, 4);
    d_weight.fill(0.5);
  }

  RmsNormForward forward() const {
    return {c.rows,          c.D,           dtype,    c.eps,    x.data(),
            residual.data(), weight.data(), h.data(), y.data(), rstd.as<float>()};
  }
  RmsNormBackward backward() const {
    return {c.rows,
            c.D,
            dtype,
            dy.data(),
            d_residual.data(),
            h.data(),
            rstd.as<float>(),
            weight.data(),
            dh.data(),
            d_weight.as<float>(),
            workspace.data()};
  }

  // That also gives the forward's output again.
  RmsNormBackward backward_with_y() const {
    RmsNormBackward a = backward();
    a.y = y_again.data();
    return a;
  }

  // The kept sum normalised again: recomputation.
  RmsNormForward replay() const {
    RmsNormForward a = forward();
    a.x = h.data();
    a.residual = a.h = nullptr;
    return a;
  }

  // Bytes that reading every input once and writing every output once moves: of the arrays, the weight, 1/rms
  // and the weight's gradient.
  double forward_bytes() const { return arrays(c.residual ? 4 : 3) + weight_bytes() + 4. * double(c.rows); }
  double replay_bytes() const { return arrays(2) + weight_bytes() + 4. * double(c.rows); }
  double backward_bytes() const {
    return arrays(c.residual ? 4 : 3) + weight_bytes() + 4. * double(c.rows) + 8. * double(c.D);
  }
  double backward_with_y_bytes() const { return backward_bytes() + arrays(1); }

 private:
  double arrays(int count) const { return count * double(c.rows * c.D) * double(size_of(dtype)); }
  double weight_bytes() const { return double(c.D) * double(size_of(dtype)); }
};

inline std::vector<Result> rmsnorm_forward_results(const RmsNormProblem& p) {
  const int64_t rows = p.c.rows, D = p.c.D;
  const auto x = p.x.to_double(), residual = p.residual.to_double(), weight = p.weight.to_double();
  std::vector<double> h(x.size()), y(x.size()), rstd(p.rstd.to_double());
  ref::rmsnorm_forward(rows, D, p.c.eps, x.data(), p.c.residual ? residual.data() : nullptr, weight.data(),
                       h.data(), y.data(), rstd.data());
  // y and rstd are those of the h that was kept.
  const auto kept = p.h.to_double();
  std::vector<double> unused(h.size());
  ref::rmsnorm_forward<double>(rows, D, p.c.eps, kept.data(), nullptr, weight.data(), unused.data(), y.data(),
                               rstd.data());
  const Tolerance sum = rounding_tolerance(p.dtype, largest(h), 1, 0);
  const Tolerance normalised = rounding_tolerance(p.dtype, largest(y), D);
  const Tolerance statistic = rounding_tolerance(DType::f32, largest(rstd), D);
  return {{"h", &p.h, std::move(h), sum},
          {"y", &p.y, std::move(y), normalised},
          {"rstd", &p.rstd, std::move(rstd), statistic}};
}

// Of backward_with_y. Call before the backward pass: the reference needs d_weight as it was.
inline std::vector<Result> rmsnorm_backward_results(const RmsNormProblem& p) {
  const int64_t rows = p.c.rows, D = p.c.D;
  const auto dy = p.dy.to_double(), d_residual = p.d_residual.to_double(), h = p.h.to_double();
  const auto rstd = p.rstd.to_double(), weight = p.weight.to_double();
  std::vector<double> dh(h.size()), y(h.size()), d_weight = p.d_weight.to_double();
  ref::rmsnorm_backward(rows, D, dy.data(), p.c.residual ? d_residual.data() : nullptr, h.data(), rstd.data(),
                        weight.data(), dh.data(), d_weight.data(), y.data());

  double normalised = 0;                                    // bounds |h * rstd|
  std::vector<double> column_sum = p.d_weight.to_double();  // of the sizes of what d_weight adds up
  for (int64_t i = 0; i < rows * D; ++i) {
    const double n = std::abs(h[size_t(i)] * rstd[size_t(i / D)]);
    normalised = std::max(normalised, n);
    column_sum[size_t(i % D)] += std::abs(dy[size_t(i)]) * n;
  }
  // mean(g * h) * rstd is at most the largest g, since the mean square of h * rstd is at most 1.
  const double magnitude =
      largest(d_residual) + largest(rstd) * largest(dy) * largest(weight) * (1 + normalised);
  const Tolerance normalised_again = rounding_tolerance(p.dtype, largest(y), D);
  return {{"dh", &p.dh, std::move(dh), rounding_tolerance(p.dtype, magnitude, D)},
          {"d_weight", &p.d_weight, std::move(d_weight),
           rounding_tolerance(DType::f32, largest(column_sum), rows)},
          {"y, computed again", &p.y_again, std::move(y), normalised_again}};
}

}  // namespace genesis
