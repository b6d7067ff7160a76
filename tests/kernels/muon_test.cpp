#include "kernels/muon/muon.h"

#include <algorithm>

#include "kernels/muon/muon_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

namespace {

struct CpuMuon {
  static void momentum(const MuonMomentum& a) { cpu::muon_momentum(a); }
  static void normalize(const MuonNormalize& a) { cpu::muon_normalize(a); }
  static void polynomial(const MuonPolynomial& a) { cpu::muon_polynomial(a); }
  static void update(const MuonUpdate& a) { cpu::muon_update(a); }
};

// What becomes of a singular value.
double iterated(const MuonCoefficients& c, double s) {
  for (const Quintic& p : c) s = s * (double(p.a) + s * s * (double(p.b) + s * s * double(p.c)));
  return s;
}

}  // namespace

TEST_CASE("muon: the published polynomials bring singular values into their published bands") {
  double jordan[2] = {9, 0}, express[2] = {9, 0}, express4[2] = {9, 0};
  for (double s = 1e-3; s <= 1; s *= 1.0001) {
    const double e = iterated(kMuonPolarExpress, s / double(kMuonPolarExpress.margin));
    express[0] = std::min(express[0], e), express[1] = std::max(express[1], e);
    if (s < 3e-3) continue;
    const double j = iterated(kMuonJordan, s);
    jordan[0] = std::min(jordan[0], j), jordan[1] = std::max(jordan[1], j);
    const double f = iterated(kMuonPolarExpress4, s / double(kMuonPolarExpress4.margin));
    express4[0] = std::min(express4[0], f), express4[1] = std::max(express4[1], f);
  }
  CHECK(jordan[0] > 0.68);
  CHECK(jordan[1] < 1.21);
  CHECK(express[0] > 0.84);
  CHECK(express[1] < 1.124);
  CHECK(express4[0] > 0.76);
  CHECK(express4[1] < 1.20);
}

// x^T x, or x x^T where x is wide, has the squares of the singular values for eigenvalues: of a diagonal matrix
// turned by reflections all of it is known.
TEST_CASE(
    "muon: the reference's iteration takes each singular value to the polynomials' value, and turns none") {
  for (const auto& shape : {std::pair<int64_t, int64_t>(6, 6), {9, 4}, {4, 9}}) {
    const int64_t rows = shape.first, columns = shape.second, n = std::min(rows, columns);
    for (const MuonCoefficients& c : {kMuonJordan, kMuonPolarExpress, kMuonPolarExpress4}) {
      // H diag(s) G, with H and G reflections I - 2 v v^T / |v|^2.
      const auto reflection = [](int64_t size, int64_t i, int64_t j) {
        double norm = 0;
        for (int64_t k = 0; k < size; ++k) norm += double((k + 1) * (k + 1));
        return (i == j ? 1. : 0.) - 2. * double((i + 1) * (j + 1)) / norm;
      };
      const auto product = [&](const std::vector<double>& s) {
        std::vector<double> x(size_t(rows * columns), 0.);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            for (int64_t k = 0; k < n; ++k) {
              x[size_t(i * columns + j)] += reflection(rows, i, k) * s[size_t(k)] * reflection(columns, k, j);
            }
          }
        }
        return x;
      };
      std::vector<double> s, after;
      for (int64_t k = 0; k < n; ++k) s.push_back(0.9 / double(int64_t(1) << (2 * k)) / double(c.margin));
      for (const double value : s) after.push_back(iterated(c, value));
      auto x = product(s);
      for (const Quintic& p : c) ref::newton_schulz(p, rows, columns, x);
      const auto expected = product(after);
      for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - expected[i]) < 1e-11);
    }
  }
}

TEST_CASE("muon: the CPU's passes agree with their formulas") {
  for (const auto& c : muon_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      MuonProblem p(c, dtype, cpu::muon_momentum_workspace(c.rows * c.columns));
      check_muon_passes<CpuMuon>(
          p, [](const Result& r) { CHECK(mismatch(r) == ""); }, [] {});
    }
  }
}
