#include <algorithm>
#include <cassert>

#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/simd.h"
#include "kernels/embedding/embedding.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kRowBlock = 64;  // rows of one task

// Row numbers ordered by token, a token's rows in their own order: a counting sort. `first` has V + 1
// elements.
void sort_by_token(int64_t rows, int64_t V, const int32_t* tokens, int32_t* first, int32_t* order) {
  std::fill_n(first, V + 1, 0);
  for (int64_t r = 0; r < rows; ++r) {
    assert(tokens[r] >= 0 && tokens[r] < V);
    ++first[tokens[r] + 1];
  }
  for (int64_t v = 0; v < V; ++v) first[v + 1] += first[v];
  for (int64_t r = 0; r < rows; ++r) order[first[tokens[r]]++] = int32_t(r);
}

}  // namespace

void embedding_forward(const EmbeddingForward& a) {
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    const T* table = static_cast<const T*>(a.table);
    T* y = static_cast<T*>(a.y);
    parallel_for_rows(a.rows, kRowBlock, [&](int64_t r) {
      assert(a.tokens[r] >= 0 && a.tokens[r] < a.V);
      std::copy_n(table + a.tokens[r] * a.D, a.D, y + r * a.D);
    });
  });
}

size_t embedding_backward_workspace(int64_t rows, int64_t V) {
  return size_t(V + 1 + rows) * sizeof(int32_t);
}

void embedding_backward(const EmbeddingBackward& a) {
  int32_t* first = static_cast<int32_t*>(a.workspace);
  int32_t* order = first + a.V + 1;
  sort_by_token(a.rows, a.V, a.tokens, first, order);
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    const T* dy = static_cast<const T*>(a.dy);
    // The first of a token's rows in the order brings the others along.
    parallel_for_rows(a.rows, kRowBlock, [&](int64_t i) {
      const int32_t token = a.tokens[order[i]];
      if (i > 0 && a.tokens[order[i - 1]] == token) return;
      float* sum = a.d_table + token * a.D;
      for (int64_t j = i; j < a.rows && a.tokens[order[j]] == token; ++j) {
        add_to(sum, dy + order[j] * a.D, a.D);
      }
    });
  });
}

}  // namespace genesis::cpu
