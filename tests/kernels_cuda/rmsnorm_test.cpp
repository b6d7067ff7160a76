#include "kernels/rmsnorm/rmsnorm.h"

#include "kernels/rmsnorm/rmsnorm_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

namespace {

RmsNormProblem problem(const RmsNormCase& c, DType dtype) {
  return {c, dtype, cuda::rmsnorm_backward_workspace(c.rows, c.D), simt::kDeviceMemory};
}

// The case agrees with the reference, and has the same bits in every order.
void check_case(const RmsNormCase& c, DType dtype) {
  INFO(c.name << ", " << name_of(dtype));
  std::vector<double> y, d_weight;
  simt::in_all_orders([&](simt::Session&) {
    RmsNormProblem p = problem(c, dtype);
    cuda::rmsnorm_forward(p.forward(), {});
    simt::finish();
    for (const auto& r : rmsnorm_forward_results(p)) CHECK(mismatch(r) == "");
    const auto expected = rmsnorm_backward_results(p);
    cuda::rmsnorm_backward(p.backward_with_y(), {});
    simt::finish();
    for (const auto& r : expected) CHECK(mismatch(r) == "");
    CHECK(p.y_again.to_double() == p.y.to_double());
    CHECK(p.workspace.guard_intact());
    if (!y.empty()) CHECK((p.y.to_double() == y && p.d_weight.to_double() == d_weight));
    y = p.y.to_double(), d_weight = p.d_weight.to_double();
  });
}

}  // namespace

TEST_CASE("rmsnorm: the CUDA kernels agree with the reference") {
  for (const auto& c : kRmsNormCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) check_case(c, dtype);
  }
}

TEST_CASE("rmsnorm: more rows than the warps of a CUDA grid take in one turn", "[long][.]") {
  check_case({"two turns", 66000, 8}, DType::bf16);
}

TEST_CASE("rmsnorm: a kept sum normalised again gives the same bits on CUDA") {
  for (const int64_t D : {256, 1000, 1536}) {
    RmsNormProblem p = problem({"replay", 9, D}, DType::bf16);
    simt::Session session;
    cuda::rmsnorm_forward(p.forward(), {});
    simt::finish();
    const auto y = p.y.to_double();
    cuda::rmsnorm_forward(p.replay(), {});
    simt::finish();
    CHECK(p.y.to_double() == y);
  }
}

TEST_CASE("rmsnorm: CUDA outputs may take the place of the inputs that the header names") {
  const RmsNormCase c = {"alias", 7, 256};
  simt::Session session;
  RmsNormProblem apart = problem(c, DType::bf16);
  cuda::rmsnorm_forward(apart.forward(), {});
  cuda::rmsnorm_backward(apart.backward(), {});
  simt::finish();
  for (Buffer RmsNormProblem::*in : {&RmsNormProblem::x, &RmsNormProblem::residual}) {
    RmsNormProblem p = problem(c, DType::bf16);
    auto a = p.forward();
    a.h = (p.*in).data();
    cuda::rmsnorm_forward(a, {});
    simt::finish();
    CHECK((p.*in).to_double() == apart.h.to_double());
    CHECK(p.y.to_double() == apart.y.to_double());
  }
  // (The first did not give y again, these do.)
  for (Buffer RmsNormProblem::*in : {&RmsNormProblem::d_residual, &RmsNormProblem::dy}) {
    RmsNormProblem p = problem(c, DType::bf16);
    cuda::rmsnorm_forward(p.forward(), {});
    auto a = p.backward_with_y();
    a.dh = (p.*in).data();
    if (a.dh != a.dy) a.y = p.dy.data();
    cuda::rmsnorm_backward(a, {});
    simt::finish();
    CHECK((a.dh == a.dy ? p.y_again : p.dy).to_double() == p.y.to_double());
    CHECK((p.*in).to_double() == apart.dh.to_double());
  }
}
