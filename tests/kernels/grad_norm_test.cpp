#include "kernels/grad_norm/grad_norm.h"

#include "kernels/grad_norm/grad_norm_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

namespace {

void run(GradNormProblem& p) {
  p.set_workspace(cpu::grad_norm_workspace(p.tensors.as<GradTensor>(), p.count()));
  cpu::grad_norm(p.args());
}

}  // namespace

TEST_CASE("grad_norm: the reference on numbers worked out by hand") {
  // sqrt(3^2 + 4^2 + 12^2) = 13, over 2 tokens 6.5; limited to 1.3, a fifth.
  const std::vector<std::vector<double>> grads = {{3, 4}, {12}};
  const auto clipped = ref::grad_norm(grads, 1.3, 1.0, 2.0);
  CHECK(clipped.norm == Approx(6.5));
  CHECK(clipped.scale == Approx(0.1));
  CHECK(ref::grad_norm(grads, 7.0, 1.0, 2.0).scale == Approx(0.5));
  CHECK(ref::grad_norm(grads, 0.0, 1.0, 2.0).scale == Approx(0.5));
}

TEST_CASE("grad_norm: the CPU version agrees with the reference") {
  for (const auto& c : grad_norm_cases()) {
    INFO(c.name);
    GradNormProblem p(c);
    run(p);
    for (const auto& r : grad_norm_results(p)) CHECK(mismatch(r) == "");
    CHECK(p.workspace.guard_intact());
  }
}

TEST_CASE("grad_norm: without a valid token norm and scale are 0") {
  GradNormProblem p({"none valid", {100}, 1.f, {5.f, 0.f}});
  p.grads[0].set(5, INFINITY);
  run(p);
  CHECK(p.norm_and_scale.to_double() == std::vector<double>{0, 0});
}

TEST_CASE("grad_norm: a gradient that is not finite makes the scale NaN") {
  for (const double bad : {double(INFINITY), -double(INFINITY), double(NAN)}) {
    GradNormProblem p({"not finite", {70000, 300}});
    p.grads[1].set(299, bad);
    run(p);
    CHECK(!std::isfinite(p.norm_and_scale.get(0)));
    CHECK(std::isnan(p.norm_and_scale.get(1)));
  }
}

TEST_CASE("grad_norm: a loss that is not finite makes the scale NaN, and leaves the norm") {
  for (const float bad : {INFINITY, NAN}) {
    GradNormProblem p({"not finite", {300}, 1.f, {bad, 2.f}});
    p.grads[0].fill(1);
    run(p);
    CHECK(p.norm_and_scale.get(0) == Approx(std::sqrt(300.0) / 2));
    CHECK(std::isnan(p.norm_and_scale.get(1)));
  }
}

TEST_CASE("grad_norm: squares that fp32 cannot hold") {
  GradNormProblem p({"huge", {4}, 1.f, {5.f, 2.f}});
  p.grads[0].fill(1e25);
  run(p);
  CHECK(p.norm_and_scale.get(0) == Approx(1e25));
  CHECK(p.norm_and_scale.get(1) == Approx(0.5e-25));
  p.grads[0].fill(1e-25);
  run(p);
  CHECK(p.norm_and_scale.get(0) == Approx(1e-25));
}
