// cuBLASLt's products through cuda::MatMul.
#include "kernels/matmul/matmul_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

TEST_CASE("matmul: the CUDA version agrees with the reference") {
  const cuda::BlasLt library;
  const Buffer workspace = workspace_buffer(cuda::kMatMulWorkspace, simt::kDeviceMemory);
  for (const auto& c : kMatMulCases) {
    for (const DType in : {DType::f32, DType::bf16}) {
      for (const DType out : {DType::f32, DType::bf16}) {
        if (!MatMulProblem::takes(c, in, out)) continue;
        INFO(c.name << ", " << name_of(in) << " to " << name_of(out));
        std::vector<double> first;
        simt::in_all_orders([&](simt::Session&) {
          const MatMulProblem p(c, in, out, simt::kDeviceMemory);
          const Result expected = matmul_result(p);
          const cuda::MatMul product(p.shape, library);
          product(p.a.data(), p.b.data(), p.c.data(), workspace.data(), {});
          simt::finish();
          CHECK(mismatch(expected) == "");
          const auto found = p.c.to_double();
          if (!first.empty()) CHECK(found == first);
          first = found;
        });
      }
    }
  }
}

TEST_CASE("matmul: what it cannot compute is refused on CUDA too") {
  const cuda::BlasLt library;
  CHECK_THROWS_AS(cuda::MatMul({.M = 0, .N = 1, .K = 1}, library), Error);
  CHECK_THROWS_AS(cuda::MatMul({.M = 1, .N = 1, .K = 1, .accumulate = true}, library), Error);
}
