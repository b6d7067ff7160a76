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
