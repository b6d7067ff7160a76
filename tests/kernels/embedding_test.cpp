#include "kernels/embedding/embedding.h"

#include "kernels/embedding/embedding_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/complex_step.h"
#include "tests/support/random_vector.h"

using namespace genesis;

TEST_CASE("embedding: the reference's backward is its forward's derivative") {
  const int64_t rows = 5, V = 4, D = 3;
  const std::vector<int32_t> tokens = {2, 0, 2, 3, 2};
  const auto table = random_vector(V * D, 0), dy = random_vector(rows * D, 1);
  std::vector<double> d_table(table.size());
  ref::embedding_backward(rows, D, tokens.data(), dy.data(), d_table.data());
  const auto loss = [&](const std::vector<ComplexArray>& in) {
    ComplexArray y(dy.size());
    ref::embedding_forward(rows, D, tokens.data(), in[0].data(), y.data());
    return dot(dy, y);
  };
  CHECK(gradient_mismatch({{"table", table, d_table}}, loss) == "");
}

TEST_CASE("embedding: the CPU version agrees with the reference") {
  for (const auto& c : kEmbeddingCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      EmbeddingProblem p(c, dtype, cpu::embedding_backward_workspace(c.rows, c.V));
      cpu::embedding_forward(p.forward());
      for (const auto& r : embedding_forward_results(p)) CHECK(mismatch(r) == "");
      const auto expected = embedding_backward_results(p);
      cpu::embedding_backward(p.backward());
      for (const auto& r : expected) CHECK(mismatch(r) == "");
      CHECK(p.workspace.guard_intact());
    }
  }
}

TEST_CASE("embedding: a token's gradients are added in row order") {
  // In fp32 2^24 + 1 is 2^24, so that the order shows.
  EmbeddingProblem p({"order", 4, 3, 1, 1}, DType::f32, cpu::embedding_backward_workspace(4, 3));
  const double big = 0x1p24;
  for (const auto& [first, last] : {std::pair(big, 1.0), std::pair(1.0, big)}) {
    p.d_table.fill(0);
    p.dy.set(0, first);
    p.dy.set(1, 1);
    p.dy.set(2, 1);
    p.dy.set(3, last);
    cpu::embedding_backward(p.backward());
    CHECK(p.d_table.get(2) == (first == big ? big : big + 4));
  }
}
