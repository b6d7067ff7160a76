#pragma once

#include "engine/ops/matmul.h"
#include "kernels/matmul/matmul_cases.h"
#include "tests/ops/one_node.h"

namespace genesis {

inline void check_matmul(Device& device) {
  for (const auto& c : kMatMulCases) {
    for (const DType in : kFloatTypes) {
      for (const DType out : kFloatTypes) {
        if (!MatMulProblem::takes(c, in, out)) continue;
        INFO(c.name << ", " << name_of(in) << " to " << name_of(out));
        const MatMulProblem p(c, in, out);
        const Result expected = matmul_result(p);
        const MatMulAttrs attrs{c.transpose_a, c.transpose_b, in != out};
        const Array product{p.c, {c.M, c.N}};
        const std::vector<Array> nothing;
        OneNode(device, ops::kMatMul, attrs,
                {{p.a, c.transpose_a ? Shape{c.K, c.M} : Shape{c.M, c.K}},
                 {p.b, c.transpose_b ? Shape{c.N, c.K} : Shape{c.K, c.N}}},
                c.accumulate ? nothing : std::vector{product}, c.accumulate ? std::vector{product} : nothing);
        check_results({expected});
      }
    }
  }
}

}  // namespace genesis
