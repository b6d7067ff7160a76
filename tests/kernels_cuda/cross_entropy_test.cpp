#include "kernels/cross_entropy/cross_entropy.h"

#include "kernels/cross_entropy/cross_entropy_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

TEST_CASE("cross_entropy: the CUDA kernels agree with the reference") {
  for (const auto& c : kCrossEntropyCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      std::vector<double> bits;
      simt::in_all_orders([&](simt::Session&) {
        CrossEntropyProblem p(c, dtype, dtype, simt::kDeviceMemory);
        const auto expected = cross_entropy_results(p);
        cuda::cross_entropy(p.args(), {});
        simt::finish();
        for (const auto& r : expected) CHECK(mismatch(r) == "");
        if (!bits.empty()) CHECK(p.loss_and_count.to_double() == bits);  // in every order
        bits = p.loss_and_count.to_double();
      });
    }
  }
}

TEST_CASE("cross_entropy: the CUDA gradient may take the logits' place, or not be wanted") {
  // In bf16 in registers alone, or in shared memory too; in fp32 in registers, in shared memory, and what neither holds.
  for (const auto& [c, dtype] : {std::pair(CrossEntropyCase{"narrow", 5, 1000, 1024, 0.f, 2}, DType::bf16),
                                 std::pair(CrossEntropyCase{"1B", 2, 49152, 49152}, DType::bf16),
                                 std::pair(CrossEntropyCase{"wide", 2, 129280, 129280}, DType::bf16),
                                 std::pair(CrossEntropyCase{"wide", 2, 129280, 129280}, DType::f32)}) {
    INFO(c.name);
    simt::Session session;
    const CrossEntropyProblem apart(c, dtype, dtype, simt::kDeviceMemory);
    cuda::cross_entropy(apart.args(), {});
    const CrossEntropyProblem p(c, dtype, dtype, simt::kDeviceMemory);
    auto a = p.args();
    a.d_logits = p.logits.data();
    cuda::cross_entropy(a, {});
    const CrossEntropyProblem alone(c, dtype, dtype, simt::kDeviceMemory);
    auto b = alone.args();
    b.d_logits = nullptr;
    cuda::cross_entropy(b, {});
    simt::finish();
    CHECK(p.logits.to_double() == apart.d_logits.to_double());
    CHECK(p.row_loss.to_double() == apart.row_loss.to_double());
    CHECK(alone.row_loss.to_double() == apart.row_loss.to_double());
  }
}

TEST_CASE("cross_entropy: the CUDA sums carry to the bit as the CPU's count does") {
  CrossEntropyProblem p({"carried", 100, 16, 16}, DType::f32, DType::f32, simt::kDeviceMemory);
  *p.loss_and_count.as<LossSum>() = {2e6f, LossSum::kCarried - 30, 1e8f, 40};
  simt::Session session;
  cuda::cross_entropy(p.args(), {});
  simt::finish();
  const LossSum sum = *p.loss_and_count.as<LossSum>();
  CHECK(sum.loss == 0);
  CHECK(sum.count == 70);
  CHECK(sum.count_before == 41);
  CHECK(sum.loss_before > 1.02e8f);
}

TEST_CASE("cross_entropy: a NaN among the logits is one in the CUDA loss, wherever it is") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t V : {40, 41}) {  // in accesses of 16 bytes, and element by element
      for (const int64_t many : {1, 8}) {
        INFO(name_of(dtype) << ", V " << V << ", " << many << " in a row");
        simt::Session session;
        CrossEntropyProblem p({"NaN", V, V, V}, dtype, dtype, simt::kDeviceMemory);
        for (int64_t row = 0; row < V; ++row) {
          for (int64_t i = row; i < row + many; ++i) p.logits.set(row * V + i % V, NAN);
          p.targets.set(row, double((row + many) % V));
        }
        cuda::cross_entropy(p.args(), {});
        simt::finish();
        int64_t lost = 0;
        for (int64_t row = 0; row < V; ++row) lost += !std::isnan(p.row_loss.get(row));
        CHECK(lost == 0);
      }
    }
  }
}

TEST_CASE("cross_entropy: CUDA refuses a gradient of another type than the logits'") {
  CHECK_THROWS_WITH(
      cuda::cross_entropy({.logits_dtype = DType::f32, .d_logits_dtype = DType::bf16}, {}),
      "cross_entropy on CUDA: expected logits and a gradient of one type, f32 or bf16; found f32 and "
      "bf16");
}
