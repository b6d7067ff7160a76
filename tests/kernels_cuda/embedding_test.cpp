#include "kernels/embedding/embedding.h"

#include "kernels/embedding/embedding_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

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
        if (!bits.empty()) CHECK(p.d_table.to_double() == bits);  // in every order
        bits = p.d_table.to_double();
      });
    }
  }
}

TEST_CASE("embedding: CUDA moves each row of the gradient once") {
  const EmbeddingCase c = {"counted", 64, 100, 256, 10};
  EmbeddingProblem p(c, DType::bf16, 0, simt::kDeviceMemory);
  simt::Session session;
  cuda::embedding_forward(p.forward(), {});
  cuda::embedding_backward(p.backward(), {});
  simt::finish();
  CHECK(session.report("embedding_forward").buffer(p.y.data()).written == 64 * 256 * 2 / 32);
  CHECK(session.report("embedding_forward").buffer(p.table.data()).read == 64 * 256 * 2 / 32);
  CHECK(session.report("embedding_backward").buffer(p.dy.data()).read == 64 * 256 * 2 / 32);
  const auto& table = session.report("embedding_backward").buffer(p.d_table.data());
  CHECK(table.read == table.distinct_read);
  CHECK(table.written == table.distinct_written);
}
