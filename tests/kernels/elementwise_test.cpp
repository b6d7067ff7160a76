#include "kernels/elementwise/elementwise.h"

#include "kernels/elementwise/elementwise_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

TEST_CASE("elementwise: the CPU versions agree with the reference") {
  for (const int64_t n : kElementwiseCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(n << " elements, " << name_of(dtype));
      ElementwiseProblem p(n, dtype);
      cpu::add(p.add());
      CHECK(mismatch(add_result(p)) == "");
      for (const DType to : {DType::f32, DType::bf16}) {
        Buffer y(to, n);
        cpu::cast(p.cast(y));
        CHECK(mismatch(cast_result(p, y)) == "");
      }
      cpu::zero(p.zero());
      CHECK(mismatch({"zero", &p.y, std::vector<double>(size_t(n)), {}}) == "");
    }
  }
}

TEST_CASE("elementwise: outputs may take an input's place") {
  const int64_t n = 1000;
  ElementwiseProblem apart(n, DType::bf16);
  cpu::add(apart.add());
  const auto sum = apart.y.to_double();
  for (Buffer ElementwiseProblem::*in : {&ElementwiseProblem::a, &ElementwiseProblem::b}) {
    ElementwiseProblem p(n, DType::bf16);
    auto args = p.add();
    args.y = (p.*in).data();
    cpu::add(args);
    CHECK((p.*in).to_double() == sum);
  }
}
