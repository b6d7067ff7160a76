#pragma once

#include "engine/ops/muon.h"
#include "kernels/common/bf16.h"
#include "kernels/muon/muon_ref.h"
#include "tests/ops/one_node.h"
#include "tests/support/singular_values.h"

namespace genesis {

// The whole step's cases stand here: its kernels' own are of its passes. Matrices whose sides differ by far have
// singular values that do not.
struct MuonNodeCase {
  const char* name;
  int64_t rows, columns;
};

inline constexpr MuonNodeCase kMuonNodeCases[] = {{"wide", 8, 64}, {"tall", 64, 8}, {"odd sizes", 37, 5}};

// Two tensors: two matrices in the first, one in the second.
struct MuonNodeProblem {
  MuonAttrs attrs;
  DType dtype;
  int64_t rows_of[2];
  Buffer step, norm_and_scale;
  Buffer grad[2], master[2], m[2], copy[2];

  MuonNodeProblem(const MuonNodeCase& c, DType dtype)
      : dtype(dtype), rows_of{2 * c.rows, c.rows}, step(DType::f32, 1), norm_and_scale(DType::f32, 2) {
    attrs = {.rows = c.rows,
             .columns = c.columns,
             .beta = 0.95f,
             .factor = 1.5f,
             .coefficients = kMuonPolarExpress,
             .matrices = {{0, 0, 0.1f}, {1, 0, 0.2f}, {0, c.rows, 0.f}}};
    step.set(0, 0.01);
    norm_and_scale.set(0, 4);
    norm_and_scale.set(1, 0.25);
    for (int t = 0; t < 2; ++t) {
      const int64_t n = rows_of[t] * c.columns;
      for (Buffer* b : {&grad[t], &master[t], &m[t]}) *b = Buffer(DType::f32, n);
      if (dtype == DType::bf16) copy[t] = Buffer(dtype, n);
      grad[t].fill_normal(1, uint64_t(3 * t));
      master[t].fill_normal(1, uint64_t(3 * t) + 1);
      m[t].fill_normal(1, uint64_t(3 * t) + 2, 0, 0.1);
    }
  }

  // Some rows of an array.
  static std::vector<double> part(const std::vector<double>& v, int64_t first, int64_t n) {
    return {v.begin() + first, v.begin() + first + n};
  }
};

inline double length(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

// One matrix from 0 on with a moment of 0: the step is -X, where X has the gradient's singular vectors. Of a random
// matrix's singular values those that the iteration promises anything of, from 0.003 (Jordan) or 0.001 (Polar Express)
// of the Frobenius norm on, end in the published band, and none above it.
inline void check_muon_band(Device& device) {
  struct Published {
    const char* name;
    const MuonCoefficients& coefficients;
    double from, least, most;
  };
  constexpr int64_t kRows = 48;
  for (const Published& p : {Published{"jordan", kMuonJordan, 0.003, 0.68, 1.21},
                             {"polar_express", kMuonPolarExpress, 0.001, 0.84, 1.124},
                             {"polar_express_4", kMuonPolarExpress4, 0.003, 0.76, 1.20}}) {
    for (const auto& shape : {std::pair<int64_t, int64_t>(kRows, kRows), {kRows, 64}, {64, kRows}}) {
      for (const DType dtype : kFloatTypes) {
        const auto [rows, columns] = shape;
        INFO(p.name << ", " << rows << " x " << columns << ", " << name_of(dtype));
        const int64_t n = rows * columns;
        Buffer grad(DType::f32, n), master(DType::f32, n), m(DType::f32, n), copy;
        if (dtype == DType::bf16) copy = Buffer(dtype, n);
        grad.fill_normal(7, 0);
        master.fill(0);
        m.fill(0);
        Buffer step(DType::f32, 1), norm_and_scale(DType::f32, 2);
        step.set(0, 1);
        norm_and_scale.set(0, 1);
        norm_and_scale.set(1, 1);
        MuonAttrs attrs;
        attrs.rows = rows;
        attrs.columns = columns;
        attrs.coefficients = p.coefficients;
        attrs.matrices = {{0, 0, 0.f}};
        std::vector<Array> into{{master, {rows, columns}}, {m, {rows, columns}}};
        if (copy.data()) into.push_back({copy, {rows, columns}});
        OneNode(device, ops::kMuon, attrs, {{step, {1}}, {norm_and_scale, {2}}, {grad, {rows, columns}}}, {},
                into);

        const auto before = singular_values(grad.to_double(), rows, columns);
        const auto after = singular_values(master.to_double(), rows, columns);
        const double size = length(grad.to_double(), std::vector<double>(size_t(n)));
        INFO("singular values from " << before.back() / size << " to " << before.front() / size
                                     << " end between " << after.back() << " and " << after.front());
        REQUIRE(before.front() / size > 50 * p.from);
        size_t promised = 0;
        for (const double value : before) promised += value / size >= p.from;
        REQUIRE(promised + 2 > before.size());
        // The roundings of a matrix's elements are independent: their own largest singular value is about half of one
        // rounding of the values around 1 (0.3 were seen).
        const double error = unit_roundoff(dtype);
        CHECK(after[promised - 1] >= p.least - error);
        CHECK(after.front() <= p.most + error);
      }
    }
  }
}

inline void check_muon(Device& device) {
  check_muon_band(device);
  for (const auto& c : kMuonNodeCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const MuonNodeProblem p(c, dtype);
      std::vector<double> masters[2], moments[2];
      for (const int t : {0, 1}) masters[t] = p.master[t].to_double(), moments[t] = p.m[t].to_double();

      std::vector<Array> in{{p.step, {1}}, {p.norm_and_scale, {2}}}, into;
      for (const int t : {0, 1}) in.push_back({p.grad[t], {p.rows_of[t], c.columns}});
      for (const auto* arrays : {&p.master, &p.m, &p.copy}) {
        for (const int t : {0, 1}) {
          if ((*arrays)[t].data()) into.push_back({(*arrays)[t], {p.rows_of[t], c.columns}});
        }
      }
      OneNode(device, ops::kMuon, p.attrs, in, {}, into);

      const double u = unit_roundoff(DType::f32);
      for (const auto& matrix : p.attrs.matrices) {
        INFO("matrix of tensor " << matrix.tensor << " from row " << matrix.first_row);
        const auto t = size_t(matrix.tensor);
        const int64_t first = matrix.first_row * c.columns, n = c.rows * c.columns;
        const auto before = MuonNodeProblem::part(masters[t], first, n);
        auto master = before, moment = MuonNodeProblem::part(moments[t], first, n);
        ref::muon<double>({0.95f, p.step.get(0), 0.25, p.attrs.factor, double(matrix.weight_decay)},
                          p.attrs.coefficients, c.rows, c.columns,
                          MuonNodeProblem::part(p.grad[t].to_double(), first, n), moment, master);
        const auto found = MuonNodeProblem::part(p.master[t].to_double(), first, n);
        // Each iteration rounds X and A once, and a polar factor moves by as much over X's least singular value, which
        // is over 0.2. The last products' sums and the master's own rounding come on top.
        const double iteration = 2 * p.attrs.coefficients.count * unit_roundoff(dtype) / 0.2;
        const double sums = u * double(std::max(c.rows, c.columns)) * p.attrs.coefficients.count / 0.2;
        CHECK(length(found, master) <= (iteration + sums) * length(master, before) +
                                           u * length(master, std::vector<double>(master.size())));
        CHECK(length(MuonNodeProblem::part(p.m[t].to_double(), first, n), moment) <=
              4 * u * length(moment, std::vector<double>(moment.size())) + u);
      }
      if (dtype != DType::bf16) continue;
      for (const int t : {0, 1}) {
        auto rounded = p.master[t].to_double();
        for (double& w : rounded) w = double(float(bf16(float(w))));
        check_results({{"copy", &p.copy[t], rounded, {}}});
      }
    }
  }
}

}  // namespace genesis
