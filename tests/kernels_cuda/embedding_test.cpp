#include "kernels/embedding/embedding.h"

#include "kernels/common/error.h"
#include "kernels/embedding/embedding_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/message_of.h"

using namespace genesis;

TEST_CASE("embedding: the CUDA kernels agree with the reference") {
  for (const auto& c : kEmbeddingCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      std::vector<double> bits;
      simt::in_all_orders([&](simt::Session&) {
        EmbeddingProblem p(c, dtype, cuda::embedding_backward_workspace(c.rows, c.V), simt::kDeviceMemory);
        cuda::embedding_forward(p.forward(), {});
        simt::finish();
        for (const auto& r : embedding_forward_results(p)) CHECK(mismatch(r) == "");
        const auto expected = embedding_backward_results(p);
        cuda::embedding_backward(p.backward(), {});
        simt::finish();
        for (const auto& r : expected) CHECK(mismatch(r) == "");
        CHECK(p.workspace.guard_intact());
        if (!bits.empty()) CHECK(p.d_table.to_double() == bits);  // in every order
        bits = p.d_table.to_double();
      });
    }
  }
}

TEST_CASE("embedding: the CUDA backward refuses a vocabulary whose tokens do not fit the sort's keys") {
  CHECK_THROWS_WITH(cuda::embedding_backward({.rows = 1, .V = 600000, .D = 8}, {}),
                    "embedding_backward: expected fewer than 524288 tokens in the vocabulary, found 600000");
  CHECK_THROWS_AS(cuda::embedding_backward({.rows = 1, .V = 524288, .D = 8}, {}), Error);
}

// It would be the key of what is past the end, which never ends.
TEST_CASE("embedding: a token that there is none of is an illegal address, and no endless loop") {
  simt::Session session;
  EmbeddingProblem p({"", 64, 100, 8, 100}, DType::f32, cuda::embedding_backward_workspace(64, 100),
                     simt::kDeviceMemory);
  p.tokens.as<int32_t>()[63] = -1;
  const std::string message = message_of([&] {
    cuda::embedding_backward(p.backward(), {});
    simt::finish();
  });
  CHECK(lacks(message, "embedding_backward") == "");
  CHECK(lacks(message, "out of bounds") == "");
}
