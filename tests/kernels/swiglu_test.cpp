#include "kernels/swiglu/swiglu.h"

#include "kernels/swiglu/swiglu_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/complex_step.h"
#include "tests/support/random_vector.h"

using namespace genesis;

TEST_CASE("swiglu: the reference's backward is its forward's derivative") {
  const int64_t rows = 3, F = 7;
  for (const double clamp : {0.0, 0.8}) {
    const auto gate_up = random_vector(rows * 2 * F, 0), dy = random_vector(rows * F, 1);
    std::vector<double> d_gate_up(gate_up.size()), y(dy.size()), y_again(dy.size());
    ref::swiglu_forward(rows, F, clamp, gate_up.data(), y.data());
    ref::swiglu_backward(rows, F, clamp, dy.data(), gate_up.data(), d_gate_up.data(), y_again.data());
    CHECK(y_again == y);
    const auto loss = [&](const std::vector<ComplexArray>& in) {
      ComplexArray y(dy.size());
      ref::swiglu_forward(rows, F, clamp, in[0].data(), y.data());
      return dot(dy, y);
    };
    INFO("clamp " << clamp);
    CHECK(gradient_mismatch({{"gate_up", gate_up, d_gate_up}}, loss) == "");
    CHECK((std::count(d_gate_up.begin(), d_gate_up.end(), 0.0) > 0) == (clamp > 0));
  }
}

TEST_CASE("swiglu: the CPU version agrees with the reference") {
  for (const auto& c : kSwiGluCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      SwiGluProblem p(c, dtype);
      cpu::swiglu_forward(p.forward());
      for (const auto& r : swiglu_forward_results(p)) CHECK(mismatch(r) == "");
      cpu::swiglu_backward(p.backward());
      for (const auto& r : swiglu_backward_results(p)) CHECK(mismatch(r) == "");
    }
  }
}

TEST_CASE("swiglu: no gradient passes a limit that was reached") {
  SwiGluProblem p({"clamped", 2, 40, 0.5f}, DType::f32);
  cpu::swiglu_backward(p.backward());
  CHECK(p.gate_up.get(0) == 0.5);
  CHECK(p.d_gate_up.get(0) == 0);
  CHECK(p.d_gate_up.get(40) == 0);
  CHECK(p.d_gate_up.get(41) == 0);
}

TEST_CASE("swiglu: a NaN comes through, with a clamp too") {
  for (const float clamp : {0.f, 2.f}) {
    SwiGluProblem p({"NaN", 1, 40, clamp}, DType::f32);
    p.gate_up.set(20, NAN);
    p.gate_up.set(40 + 30, NAN);
    cpu::swiglu_forward(p.forward());
    cpu::swiglu_backward(p.backward());
    for (const int64_t i : {20, 30}) {
      CHECK(std::isnan(p.y.get(i)));
      CHECK(std::isnan(p.y_again.get(i)));
    }
    CHECK(std::isnan(p.d_gate_up.get(20)));
    CHECK(std::isnan(p.d_gate_up.get(30)));
    CHECK(std::isnan(p.d_gate_up.get(40 + 20)));
  }
}

TEST_CASE("swiglu: the gradient may take the inputs' place, and the output is optional") {
  const SwiGluCase c = {"alias", 5, 33, 2.f};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SwiGluProblem apart(c, dtype), in_place(c, dtype);
    cpu::swiglu_backward(apart.backward());
    auto a = in_place.backward();
    a.d_gate_up = in_place.gate_up.data();
    a.y = nullptr;
    cpu::swiglu_backward(a);
    CHECK(in_place.gate_up.to_double() == apart.d_gate_up.to_double());
    SwiGluProblem over_dy(c, dtype);
    auto b = over_dy.backward();
    b.y = over_dy.dy.data();
    cpu::swiglu_backward(b);
    CHECK(over_dy.dy.to_double() == apart.y_again.to_double());
    CHECK(over_dy.d_gate_up.to_double() == apart.d_gate_up.to_double());
  }
}
