// The specification of the embedding: the words of embedding.h in scalar loops.
#pragma once

#include <cstdint>

namespace genesis::ref {

template <class S>
void embedding_forward(int64_t rows, int64_t D, const int32_t* tokens, const S* table, S* y) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < D; ++d) y[r * D + d] = table[tokens[r] * D + d];
  }
}

// d_table is added to.
template <class S>
void embedding_backward(int64_t rows, int64_t D, const int32_t* tokens, const S* dy, S* d_table) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < D; ++d) d_table[tokens[r] * D + d] += dy[r * D + d];
  }
}

}  // namespace genesis::ref
