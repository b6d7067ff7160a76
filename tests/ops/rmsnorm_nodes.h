#pragma once

#include "engine/ops/rmsnorm.h"
#include "kernels/rmsnorm/rmsnorm_cases.h"
#include "tests/ops/one_node.h"

namespace genesis {

inline void run_rmsnorm(Device& device, RmsNormProblem& p) {
  const RmsNormCase& c = p.c;
  const Buffer none;
  if (!c.residual) p.h.copy_from(p.x);  // the norm of x itself gives no h
  OneNode(device, ops::kRmsNorm, NormAttrs{c.eps},
          {{p.x, {c.rows, c.D}}, {p.residual, {c.rows, c.D}}, {p.weight, {c.D}}},
          {{c.residual ? p.h : none, {c.rows, c.D}}, {p.y, {c.rows, c.D}}, {p.rstd, {c.rows}}});
}

inline void check_rmsnorm(Device& device) {
  for (const auto& c : kRmsNormCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      RmsNormProblem p(c, dtype, 0);
      run_rmsnorm(device, p);
      check_results(rmsnorm_forward_results(p));
    }
  }
}

inline void check_rmsnorm_backward(Device& device) {
  for (const auto& c : kRmsNormCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      RmsNormProblem p(c, dtype, 0);
      run_rmsnorm(device, p);
      const auto expected = rmsnorm_backward_results(p);
      OneNode(device, ops::kRmsNormBackward, NormAttrs{c.eps},
              {{p.dy, {c.rows, c.D}},
               {p.d_residual, {c.rows, c.D}},
               {p.h, {c.rows, c.D}},
               {p.rstd, {c.rows}},
               {p.weight, {c.D}}},
              {{p.dh, {c.rows, c.D}}, {p.y_again, {c.rows, c.D}}}, {{p.d_weight, {c.D}}});
      check_results(expected);
    }
  }
}

}  // namespace genesis
