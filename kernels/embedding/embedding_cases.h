// The embedding's cases: what tests and benchmarks of every device run it on.
#pragma once

#include <set>

#include "kernels/common/cases.h"
#include "kernels/common/random.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/embedding_ref.h"

namespace genesis {

struct EmbeddingCase {
  const char* name;
  int64_t rows, V, D;
  int64_t distinct;  // tokens are drawn from the vocabulary's last `distinct`
};

inline constexpr EmbeddingCase kEmbeddingCases[] = {
    {"one row", 1, 10, 64, 10},
    {"one element", 3, 2, 1, 2},
    {"a vector and a bit", 9, 5, 17, 5},
    {"one token alone", 200, 50, 32, 1},
    {"few tokens", 300, 100, 40, 3},
    {"quickstart width", 500, 512, 256, 512},
    {"sparse", 65, 5000, 24, 5000},
    {"some tokens frequent", 8200, 600, 24, 260},
    {"one token of many rows", 1300, 3, 24, 1},
    // Tokens with more and with fewer rows than a warp, in rows of several tiles.
    {"1B width", 200, 8, 1536, 6},
    {"more tiles than warps", 200, 8, 2312, 6},
    {"odd width", 200, 8, 259, 6},
};

inline constexpr EmbeddingCase kEmbeddingBenchCases[] = {
    {"quickstart", 4096, 4096, 256, 1000},
    {"genesis_1b", 8192, 49152, 1536, 4000},
    {"nano_1b", 8192, 129280, 1536, 4000},
};

struct EmbeddingProblem {
  EmbeddingCase c;
  DType dtype;
  Buffer tokens, table, y, dy, d_table, workspace;

  EmbeddingProblem(const EmbeddingCase& c, DType dtype, size_t workspace_bytes,
                   const Memory& memory = kHostMemory)
      : c(c), dtype(dtype) {
    tokens = Buffer(DType::i32, c.rows, memory);
    table = Buffer(dtype, c.V * c.D, memory);
    d_table = Buffer(DType::f32, c.V * c.D, memory);
    for (Buffer* b : {&y, &dy}) *b = Buffer(dtype, c.rows * c.D, memory);
    workspace = workspace_buffer(workspace_bytes, memory);
    table.fill_normal(1, 0);
    dy.fill_normal(1, 1);
    d_table.fill(0.5);
    for (int64_t r = 0; r < c.rows; ++r) {
      tokens.set(r, double(c.V - 1 - random_bits(1, 2, uint64_t(r)) % c.distinct));
    }
  }

  EmbeddingForward forward() const {
    return {c.rows, c.V, c.D, dtype, tokens.as<int32_t>(), table.data(), y.data()};
  }
  EmbeddingBackward backward() const {
    return {c.rows, c.V, c.D, dtype, tokens.as<int32_t>(), dy.data(), d_table.as<float>(), workspace.data()};
  }

  // Bytes of the tokens and of the rows read and written; the gradient's rows are read and written once a
  // token.
  double forward_bytes() const { return 4. * double(c.rows) + 2. * double(c.rows * c.D) * size_of(dtype); }
  double backward_bytes() const {
    const int32_t* all = tokens.as<int32_t>();
    const auto different = std::set<int32_t>(all, all + c.rows).size();
    return 4. * double(c.rows) + double(c.rows * c.D) * size_of(dtype) + 8. * double(different) * double(c.D);
  }
};

inline std::vector<Result> embedding_forward_results(const EmbeddingProblem& p) {
  const auto table = p.table.to_double();
  std::vector<double> y(size_t(p.y.size()));
  ref::embedding_forward(p.c.rows, p.c.D, p.tokens.as<int32_t>(), table.data(), y.data());
  return {{"y", &p.y, std::move(y), {}}};
}

// Call before the backward pass: the reference needs d_table as it was.
inline std::vector<Result> embedding_backward_results(const EmbeddingProblem& p) {
  const int32_t* tokens = p.tokens.as<int32_t>();
  auto dy = p.dy.to_double();
  auto d_table = p.d_table.to_double(), magnitude = d_table;
  ref::embedding_backward(p.c.rows, p.c.D, tokens, dy.data(), d_table.data());
  for (double& v : dy) v = std::abs(v);
  ref::embedding_backward(p.c.rows, p.c.D, tokens, dy.data(), magnitude.data());
  std::vector<int64_t> count(static_cast<size_t>(p.c.V));
  for (int64_t r = 0; r < p.c.rows; ++r) ++count[size_t(tokens[r])];
  const int64_t terms = *std::max_element(count.begin(), count.end());
  return {{"d_table", &p.d_table, std::move(d_table),
           rounding_tolerance(DType::f32, largest(magnitude), terms, 0)}};
}

}  // namespace genesis
