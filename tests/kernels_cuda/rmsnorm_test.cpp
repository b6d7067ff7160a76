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

}  // namespace

TEST_CASE("rmsnorm: the CUDA kernels agree with the reference") {
  for (const auto& c : kRmsNormCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      std::vector<double> y, d_weight;
      simt::in_all_orders([&](simt::Session&) {
        RmsNormProblem p = problem(c, dtype);
        cuda::rmsnorm_forward(p.forward(), {});
        simt::finish();
        for (const auto& r : rmsnorm_forward_results(p)) CHECK(mismatch(r) == "");
        const auto expected = rmsnorm_backward_results(p);
        cuda::rmsnorm_backward(p.backward(), {});
        simt::finish();
        for (const auto& r : expected) CHECK(mismatch(r) == "");
        CHECK(p.workspace.guard_intact());
        if (!y.empty())
          CHECK((p.y.to_double() == y && p.d_weight.to_double() == d_weight));  // in every order
        y = p.y.to_double(), d_weight = p.d_weight.to_double();
      });
    }
  }
}

TEST_CASE("rmsnorm: a kept sum normalised again gives the same bits on CUDA") {
  for (const int64_t D : {256, 1000, 1536}) {
    RmsNormProblem p = problem({"replay", 9, D}, DType::bf16);
    simt::Session session;
    cuda::rmsnorm_forward(p.forward(), {});
    simt::finish();
    const auto y = p.y.to_double();
    auto again = p.forward();
    again.x = p.h.data();
    again.residual = nullptr;
    again.h = nullptr;
    cuda::rmsnorm_forward(again, {});
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
  for (Buffer RmsNormProblem::*in : {&RmsNormProblem::d_residual, &RmsNormProblem::dy}) {
    RmsNormProblem p = problem(c, DType::bf16);
    cuda::rmsnorm_forward(p.forward(), {});
    auto a = p.backward();
    a.dh = (p.*in).data();
    cuda::rmsnorm_backward(a, {});
    simt::finish();
    CHECK((p.*in).to_double() == apart.dh.to_double());
  }
}

TEST_CASE("rmsnorm: CUDA reads every input once, 16 bytes a thread, without bank conflicts in its loops") {
  for (const int64_t D : {1024, 1536, 2048}) {
    INFO("D = " << D);
    const int64_t rows = 24, sectors = rows * D * 2 / 32, blocks = rows / 4;
    RmsNormProblem p = problem({"counted", rows, D}, DType::bf16);
    simt::Session session;
    cuda::rmsnorm_forward(p.forward(), {});
    cuda::rmsnorm_backward(p.backward(), {});
    const auto& forward = session.report("rmsnorm_forward");
    for (const Buffer* b : {&p.x, &p.residual}) CHECK(forward.buffer(b->data()).read == sectors);
    for (const Buffer* b : {&p.h, &p.y}) CHECK(forward.buffer(b->data()).written == sectors);
    CHECK(forward.buffer(p.weight.data()).read == blocks * D * 2 / 32);  // once a block
    CHECK(forward.bank_conflicts() == 0);

    const auto& backward = session.report("rmsnorm_backward");
    for (const Buffer* b : {&p.dy, &p.h, &p.d_residual}) CHECK(backward.buffer(b->data()).read == sectors);
    CHECK(backward.buffer(p.dh.data()).written == sectors);
    CHECK(backward.buffer(p.workspace.data()).written == blocks * D * 4 / 32);
    // Only where the warps' sums meet at the end: 4 stores and 3 loads of a block, in 16-byte accesses that
    // take 4 passes more than they need.
    CHECK(backward.bank_conflicts() == blocks * (4 + 3) * (D / 128) * 4);
    for (const auto* r : {&forward, &backward}) {
      for (const simt::SiteCount& s : r->sites)
        CHECK((s.bytes == 16 || s.lanes == s.instructions || s.lanes == 32 * s.instructions));
    }
  }
}
