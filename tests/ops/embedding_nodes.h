#pragma once

#include "engine/ops/embedding.h"
#include "kernels/embedding/embedding_cases.h"
#include "tests/ops/one_node.h"

namespace genesis {

inline void check_embedding(Device& device) {
  for (const auto& c : kEmbeddingCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const EmbeddingProblem p(c, dtype, 0);
      OneNode(device, ops::kEmbedding, {}, {{p.tokens, {c.rows}}, {p.table, {c.V, c.D}}},
              {{p.y, {c.rows, c.D}}});
      check_results(embedding_forward_results(p));
    }
  }
}

inline void check_embedding_backward(Device& device) {
  for (const auto& c : kEmbeddingCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const EmbeddingProblem p(c, dtype, 0);
      const auto expected = embedding_backward_results(p);
      OneNode(device, ops::kEmbeddingBackward, {}, {{p.tokens, {c.rows}}, {p.dy, {c.rows, c.D}}}, {},
              {{p.d_table, {c.V, c.D}}});
      check_results(expected);
    }
  }
}

}  // namespace genesis
