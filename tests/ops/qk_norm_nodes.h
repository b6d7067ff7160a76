#pragma once

#include "engine/ops/qk_norm.h"
#include "kernels/qk_norm/qk_norm_cases.h"
#include "tests/ops/one_node.h"

namespace genesis {

inline QkNormAttrs qk_norm_attrs(const QkNormCase& c) {
  return {{int(c.H), int(c.KV), int(c.K), c.theta, c.interleaved, false}, c.eps};
}

inline void check_qk_norm(Device& device) {
  for (const auto& c : kQkNormCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const QkNormProblem p(c, dtype, 0);
      const Shape qkv{c.rows, p.shape().row()}, weight{c.K};
      OneNode(device, ops::kQkNorm, qk_norm_attrs(c),
              {{p.qkv, qkv}, {p.positions, {c.rows}}, {p.q_weight, weight}, {p.k_weight, weight}},
              {{p.rotated, qkv}});
      check_results({qk_norm_forward_result(p)});
    }
  }
}

inline void check_qk_norm_backward(Device& device) {
  for (const auto& c : kQkNormCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const QkNormProblem p(c, dtype, 0);
      const auto expected = qk_norm_backward_results(p);
      const Shape qkv{c.rows, p.shape().row()}, weight{c.K};
      OneNode(
          device, ops::kQkNormBackward, qk_norm_attrs(c),
          {{p.d_qkv, qkv}, {p.positions, {c.rows}}, {p.q_weight, weight}, {p.k_weight, weight}, {p.qkv, qkv}},
          {{p.d_qkv, qkv}}, {{p.d_q_weight, weight}, {p.d_k_weight, weight}});
      check_results(expected);
    }
  }
}

}  // namespace genesis
