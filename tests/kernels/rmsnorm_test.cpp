#include "kernels/rmsnorm/rmsnorm.h"

#include "kernels/rmsnorm/rmsnorm_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/complex_step.h"
#include "tests/support/random_vector.h"

using namespace genesis;

TEST_CASE("rmsnorm: the reference's backward is its forward's derivative") {
  const int64_t rows = 3, D = 5, n = rows * D;
  const double eps = 0.1;
  const auto x = random_vector(n, 0), residual = random_vector(n, 1), weight = random_vector(D, 2, 1, 0.3);
  const auto dy = random_vector(n, 3), d_residual = random_vector(n, 4);

  std::vector<double> h(x), y(x), rstd(rows), dh(x), y_again(x), d_weight(D, 0.0);
  ref::rmsnorm_forward(rows, D, eps, x.data(), residual.data(), weight.data(), h.data(), y.data(),
                       rstd.data());
  ref::rmsnorm_backward(rows, D, dy.data(), d_residual.data(), h.data(), rstd.data(), weight.data(),
                        dh.data(), d_weight.data(), y_again.data());
  CHECK(y_again == y);

  // d_residual is the gradient that reaches h without passing through y.
  const auto loss = [&](const std::vector<ComplexArray>& in) {
    ComplexArray h(n), y(n), rstd(rows);
    ref::rmsnorm_forward(rows, D, eps, in[0].data(), in[1].data(), in[2].data(), h.data(), y.data(),
                         rstd.data());
    return dot(dy, y) + dot(d_residual, h);
  };
  CHECK(gradient_mismatch({{"x", x, dh}, {"residual", residual, dh}, {"weight", weight, d_weight}}, loss) ==
        "");
}

TEST_CASE("rmsnorm: the CPU version agrees with the reference") {
  for (const auto& c : kRmsNormCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      RmsNormProblem p(c, dtype, cpu::rmsnorm_backward_workspace(c.rows, c.D));
      cpu::rmsnorm_forward(p.forward());
      for (const auto& r : rmsnorm_forward_results(p)) CHECK(mismatch(r) == "");
      const auto expected = rmsnorm_backward_results(p);
      cpu::rmsnorm_backward(p.backward_with_y());
      for (const auto& r : expected) CHECK(mismatch(r) == "");
      CHECK(p.y_again.to_double() == p.y.to_double());
      CHECK(p.workspace.guard_intact());
    }
  }
}

TEST_CASE("rmsnorm: outputs may take the place of the inputs that the header names") {
  const RmsNormCase c = {"alias", 7, 100};
  const size_t workspace = cpu::rmsnorm_backward_workspace(c.rows, c.D);
  RmsNormProblem apart(c, DType::bf16, workspace);
  cpu::rmsnorm_forward(apart.forward());
  cpu::rmsnorm_backward(apart.backward());
  const auto h = apart.h.to_double(), dh = apart.dh.to_double();

  for (Buffer RmsNormProblem::*in : {&RmsNormProblem::x, &RmsNormProblem::residual}) {
    RmsNormProblem p(c, DType::bf16, workspace);
    auto a = p.forward();
    a.h = (p.*in).data();
    cpu::rmsnorm_forward(a);
    CHECK((p.*in).to_double() == h);
    CHECK(p.y.to_double() == apart.y.to_double());
  }
  for (Buffer RmsNormProblem::*in : {&RmsNormProblem::d_residual, &RmsNormProblem::dy}) {
    RmsNormProblem p(c, DType::bf16, workspace);
    cpu::rmsnorm_forward(p.forward());
    auto a = p.backward_with_y();
    a.dh = (p.*in).data();
    if (a.dh != a.dy) a.y = p.dy.data();
    cpu::rmsnorm_backward(a);
    CHECK((a.dh == a.dy ? p.y_again : p.dy).to_double() == p.y.to_double());
    CHECK((p.*in).to_double() == dh);
    CHECK(p.d_weight.to_double() == apart.d_weight.to_double());
  }
}

TEST_CASE("rmsnorm: what is optional changes nothing else") {
  const RmsNormCase c = {"optional", 5, 40, false};
  RmsNormProblem all(c, DType::f32, 0), least(c, DType::f32, 0);
  cpu::rmsnorm_forward(all.forward());
  CHECK(all.h.to_double() == all.x.to_double());
  auto a = least.forward();
  a.h = nullptr;
  a.rstd = nullptr;
  cpu::rmsnorm_forward(a);
  CHECK(least.y.to_double() == all.y.to_double());
}
