// Muon's cases: what tests of every device run its passes on.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/common/bf16.h"
#include "kernels/common/cases.h"
#include "kernels/muon/muon.h"
#include "kernels/muon/muon_ref.h"

namespace genesis {

struct MuonCase {
  const char* name;
  int64_t rows, columns;  // the polynomial's matrices are [rows, rows]
  float scale = 0.25f;
};

inline const std::vector<MuonCase>& muon_cases() {
  static const std::vector<MuonCase> cases = {
      {"one element", 1, 1}, {"odd sizes", 13, 7},         {"tall", 96, 40},
      {"wide", 40, 264},     {"several chunks", 300, 264}, {"no gradient", 16, 16, 0.f},
  };
  return cases;
}

inline constexpr MuonCase kMuonBenchCases[] = {
    {"quickstart, ffn", 192, 512}, {"1b, queries", 1536, 1536}, {"1b, ffn", 1536, 4736}};

// The arrays of one matrix.
struct MuonProblem {
  MuonCase c;
  DType dtype;
  Buffer grad, m, master, copy, x, gram, square, norm, step, norm_and_scale, workspace;

  MuonProblem(const MuonCase& c, DType dtype, size_t workspace_bytes, const Memory& memory = kHostMemory)
      : c(c), dtype(dtype) {
    const int64_t n = c.rows * c.columns;
    for (Buffer* b : {&grad, &m, &master}) *b = Buffer(DType::f32, n, memory);
    copy = Buffer(DType::bf16, n, memory);
    x = Buffer(dtype, n, memory);
    gram = Buffer(dtype, c.rows * c.rows, memory);
    square = Buffer(DType::f32, c.rows * c.rows, memory);
    norm = Buffer(DType::f32, 1, memory);
    step = Buffer(DType::f32, 1, memory);
    norm_and_scale = Buffer(DType::f32, 2, memory);
    workspace = workspace_buffer(workspace_bytes, memory);
    grad.fill_normal(1, 0);
    m.fill_normal(1, 1, 0, c.scale == 0 ? 0. : 0.1);
    master.fill_normal(1, 2);
    gram.fill_normal(1, 3);
    square.fill_normal(1, 4);
    step.set(0, 0.01);
    norm_and_scale.set(0, 4);
    norm_and_scale.set(1, c.scale);
  }

  MuonMomentum momentum() const {
    return {c.rows * c.columns,         grad.as<float>(), m.as<float>(),   0.95f,
            norm_and_scale.as<float>(), norm.as<float>(), workspace.data()};
  }
  MuonNormalize normalize() const {
    return {c.rows * c.columns,
            grad.as<float>(),
            m.as<float>(),
            0.95f,
            norm_and_scale.as<float>(),
            norm.as<float>(),
            1.01f,
            dtype,
            x.data()};
  }
  MuonPolynomial polynomial() const {
    return {c.rows, {3.5f, -4.75f, 2.f}, square.as<float>(), dtype, gram.data(), gram.data()};
  }
  MuonUpdate update() const {
    return {
        c.rows * c.columns, dtype,      x.data(), 1.5f, 0.1f, step.as<MuonStep>(), norm_and_scale.as<float>(),
        master.as<float>(), copy.data()};
  }

  // Gradient and m are read, m is written.
  double momentum_bytes() const { return 12 * elements(); }
  // Gradient and m are read, X is written.
  double normalize_bytes() const { return (8 + double(size_of(dtype))) * elements(); }
  // The square and the Gram matrix are read, the polynomial is written.
  double polynomial_bytes() const {
    return (4 + 2 * double(size_of(dtype))) * double(c.rows) * double(c.rows);
  }
  // X and master are read, master and copy are written.
  double update_bytes() const { return (8 + double(size_of(dtype)) + 2) * elements(); }

 private:
  double elements() const { return double(c.rows) * double(c.columns); }
};

// Runs the passes one after the other and hands each result to `take`. After a pass `finish` is called.
template <class Device, class Take, class Finish>
void check_muon_passes(MuonProblem& p, const Take& take, const Finish& finish) {
  const double u = unit_roundoff(DType::f32), of_type = unit_roundoff(p.dtype);
  const auto n = size_t(p.c.rows * p.c.columns);
  const double beta = 0.95f, scale = p.c.scale;

  auto m = p.m.to_double();
  const auto grad = p.grad.to_double();
  double squares = 0, largest_m = 0;
  for (size_t i = 0; i < n; ++i) {
    largest_m = std::max(largest_m, std::abs(m[i]) + std::abs(scale * grad[i]));
    m[i] = beta * m[i] + (1 - beta) * (scale * grad[i]);
  }
  Device::momentum(p.momentum());
  finish();
  take(Result{"m", &p.m, m, {u, 4 * u * largest_m}});
  m = p.m.to_double();
  std::vector<double> nesterov(n);
  for (size_t i = 0; i < n; ++i) {
    nesterov[i] = (1 - beta) * (scale * grad[i]) + beta * m[i];
    squares += nesterov[i] * nesterov[i];
  }
  // A thread adds up some hundred squares, all of one sign, and a few roundings lead to each.
  take(Result{"norm", &p.norm, {std::sqrt(squares)}, {256 * u, 0}});

  const double norm = std::max(p.norm.get(0), double(kMuonLeastNorm));
  auto x = nesterov;
  for (double& value : x) value /= double(1.01f) * norm;
  Device::normalize(p.normalize());
  finish();
  take(Result{"x", &p.x, x, {of_type + 8 * u, 8 * u * largest_m / norm}});

  auto y = p.gram.to_double();
  const auto square = p.square.to_double();
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = -4.75 * y[i] + 2 * square[i] + (i % (size_t(p.c.rows) + 1) == 0 ? 3.5 : 0);
  }
  Device::polynomial(p.polynomial());
  finish();
  take(Result{"y", &p.gram, y, {of_type, 8 * u * 30}});

  auto master = p.master.to_double();
  const auto step = p.x.to_double();
  for (size_t i = 0; i < n; ++i) {
    master[i] -= p.step.get(0) * (1.5 * step[i] + double(0.1f) * master[i]);
  }
  Device::update(p.update());
  finish();
  take(Result{"master", &p.master, master, {4 * u, 4 * u}});
  auto rounded = p.master.to_double();
  for (double& w : rounded) w = double(float(bf16(float(w))));
  take(Result{"copy", &p.copy, rounded, {}});
}

}  // namespace genesis
