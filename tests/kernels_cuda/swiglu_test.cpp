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
        CHECK(p.y_again.to_double() == p.y.to_double());
        // The gradient may take the place of its input, and y need not be wanted.
        const auto apart = p.d_gate_up.to_double();
        auto in_place = p.backward();
        in_place.d_gate_up = p.gate_up.data();
        in_place.y = nullptr;
        cuda::swiglu_backward(in_place, {});
        simt::finish();
        CHECK(p.gate_up.to_double() == apart);
        SwiGluProblem again(c, dtype, simt::kDeviceMemory);
        auto over_dy = again.backward();
        over_dy.y = again.dy.data();
        cuda::swiglu_backward(over_dy, {});
        simt::finish();
        CHECK(again.dy.to_double() == p.y.to_double());
        CHECK(again.d_gate_up.to_double() == apart);
      });
    }
  }
}

TEST_CASE("swiglu: a NaN stays one on CUDA, also where a clamp is set") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const float clamp : {0.f, 1.f}) {
      for (const int64_t at : {10, 64 + 10}) {  // in gate, in up
        INFO(name_of(dtype) << ", clamp " << clamp << ", at " << at);
        simt::Session session;
        SwiGluProblem p({"NaN", 1, 64, clamp}, dtype, simt::kDeviceMemory);
        p.gate_up.set(at, NAN);
        cuda::swiglu_forward(p.forward(), {});
        cuda::swiglu_backward(p.backward(), {});
        simt::finish();
        CHECK(std::isnan(p.y.get(10)));
        CHECK(std::isnan(p.y_again.get(10)));
        const auto expected = swiglu_backward_results(p).front().expected;
        for (const size_t i : {size_t(10), size_t(64 + 10)}) {
          CHECK(std::isnan(p.d_gate_up.get(int64_t(i))) == std::isnan(expected[i]));
        }
      }
    }
  }
}
