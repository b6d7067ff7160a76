#include "kernels/swiglu/swiglu.h"

#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "kernels/swiglu/swiglu_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

TEST_CASE("swiglu: the CUDA kernels agree with the reference") {
  for (const auto& c : kSwiGluCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      simt::in_all_orders([&](simt::Session&) {
        SwiGluProblem p(c, dtype, simt::kDeviceMemory);
        cuda::swiglu_forward(p.forward(), {});
        simt::finish();
        for (const auto& r : swiglu_forward_results(p)) CHECK(mismatch(r) == "");
        const auto expected = swiglu_backward_results(p);
        cuda::swiglu_backward(p.backward(), {});
        simt::finish();
        for (const auto& r : expected) CHECK(mismatch(r) == "");
        // The gradient may take the place of its input, and y need not be wanted.
        const auto apart = p.d_gate_up.to_double();
        auto in_place = p.backward();
        in_place.d_gate_up = p.gate_up.data();
        in_place.y = nullptr;
        cuda::swiglu_backward(in_place, {});
        simt::finish();
        CHECK(p.gate_up.to_double() == apart);
      });
    }
  }
}

TEST_CASE("swiglu: memory is touched once, 16 bytes a thread") {
  const SwiGluProblem p({"1B width", 6, 4736}, DType::bf16, simt::kDeviceMemory);
  simt::Session session;
  cuda::swiglu_forward(p.forward(), {});
  cuda::swiglu_backward(p.backward(), {});
  const int64_t sectors = 6 * 4736 * 2 / 32;
  const auto &forward = session.report("swiglu_forward"), &backward = session.report("swiglu_backward");
  CHECK(forward.global_reads().sectors == 2 * sectors);
  CHECK(forward.global_writes().sectors == sectors);
  CHECK(backward.global_reads().sectors == 3 * sectors);
  CHECK(backward.global_writes().sectors == 3 * sectors);
  for (const auto* r : {&forward, &backward}) {
    for (const simt::SiteCount& s : r->sites) CHECK(s.bytes == 16);
  }
}
