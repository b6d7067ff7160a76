#pragma once

#include "engine/ops/rope.h"
#include "kernels/rope/rope_cases.h"
#include "tests/ops/one_node.h"

namespace genesis {

inline void check_rope(Device& device) {
  for (const auto& c : kRopeCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const RopeProblem p(c, dtype);
      const Result expected = rope_result(p);
      const Shape qkv{c.rows, (c.H + 2 * c.KV) * c.K};
      const RopeAttrs attrs{int(c.H), int(c.KV), int(c.K), c.theta, c.interleaved, c.inverse};
      OneNode(device, ops::kRope, attrs, {{p.qkv, qkv}, {p.positions, {c.rows}}}, {{p.qkv, qkv}});
      check_results({expected});
    }
  }
}

}  // namespace genesis
