#pragma once

#include "engine/ops/elementwise.h"
#include "kernels/elementwise/elementwise_cases.h"
#include "tests/ops/one_node.h"

namespace genesis {

inline void check_add(Device& device) {
  for (const int64_t n : kElementwiseCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(n << ", " << name_of(dtype));
      const ElementwiseProblem p(n, dtype);
      OneNode(device, ops::kAdd, {}, {{p.a, {n}}, {p.b, {n}}}, {{p.y, {n}}});
      check_results({add_result(p)});
    }
  }
}

inline void check_zero(Device& device) {
  for (const int64_t n : kElementwiseCases) {
    const ElementwiseProblem p(n, DType::f32), other(n / 2 + 1, DType::bf16);
    OneNode(device, ops::kZero, {}, {}, {}, {{p.y, {n}}, {other.y, {other.n}}});
    for (const Buffer* y : {&p.y, &other.y}) CHECK(largest(y->to_double()) == 0);
  }
}

}  // namespace genesis
