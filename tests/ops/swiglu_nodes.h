#pragma once

#include "engine/ops/swiglu.h"
#include "kernels/swiglu/swiglu_cases.h"
#include "tests/ops/one_node.h"

namespace genesis {

inline void check_swiglu(Device& device) {
  for (const auto& c : kSwiGluCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const SwiGluProblem p(c, dtype);
      OneNode(device, ops::kSwiGlu, SwiGluAttrs{c.clamp}, {{p.gate_up, {c.rows, 2 * c.F}}},
              {{p.y, {c.rows, c.F}}});
      check_results(swiglu_forward_results(p));
    }
  }
}

inline void check_swiglu_backward(Device& device) {
  for (const auto& c : kSwiGluCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const SwiGluProblem p(c, dtype);
      const auto expected = swiglu_backward_results(p);
      OneNode(device, ops::kSwiGluBackward, SwiGluAttrs{c.clamp},
              {{p.dy, {c.rows, c.F}}, {p.gate_up, {c.rows, 2 * c.F}}},
              {{p.d_gate_up, {c.rows, 2 * c.F}}, {p.y_again, {c.rows, c.F}}});
      check_results(expected);
    }
  }
}

}  // namespace genesis
