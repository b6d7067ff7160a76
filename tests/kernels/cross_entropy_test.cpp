#include "kernels/cross_entropy/cross_entropy.h"

#include "kernels/cross_entropy/cross_entropy_cases.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/complex_step.h"
#include "tests/support/random_vector.h"

using namespace genesis;

TEST_CASE("cross_entropy: the reference's backward is its forward's derivative") {
  const int64_t rows = 4, V = 6, stride = 8;
  const std::vector<int32_t> targets = {5, -1, 0, 2};
  const auto logits = random_vector(rows * stride, 0, 0, 2);
  for (const double z_loss : {0.0, 0.3}) {
    std::vector<double> row_loss(rows, 0.0), lse(row_loss), d_logits(logits.size());
    ref::cross_entropy_forward(rows, V, stride, logits.data(), targets.data(), row_loss.data(), lse.data());
    ref::cross_entropy_backward(rows, V, stride, z_loss, logits.data(), targets.data(), lse.data(),
                                d_logits.data());
    const auto loss = [&](const std::vector<ComplexArray>& in) {
      ComplexArray row_loss(rows), lse(rows);
      ref::cross_entropy_forward(rows, V, stride, in[0].data(), targets.data(), row_loss.data(), lse.data());
      Complex sum = 0;
      for (size_t r = 0; r < targets.size(); ++r) {
        if (targets[r] >= 0) sum += row_loss[r] + z_loss * lse[r] * lse[r];
      }
      return sum;
    };
    INFO("z_loss " << z_loss);
    CHECK(gradient_mismatch({{"logits", logits, d_logits}}, loss) == "");
  }
}

TEST_CASE("cross_entropy: the CPU version agrees with the reference") {
  for (const auto& c : kCrossEntropyCases) {
    for (const DType logits : {DType::f32, DType::bf16}) {
      for (const DType d_logits : {DType::f32, DType::bf16}) {
        INFO(c.name << ", " << name_of(logits) << " to " << name_of(d_logits));
        CrossEntropyProblem p(c, logits, d_logits);
        const auto expected = cross_entropy_results(p);
        cpu::cross_entropy(p.args());
        for (const auto& r : expected) CHECK(mismatch(r) == "");
      }
    }
  }
}

TEST_CASE("cross_entropy: ignored rows add nothing") {
  CrossEntropyProblem p({"all ignored", 5, 30, 32, 0.1f, 1}, DType::f32, DType::bf16);
  cpu::cross_entropy(p.args());
  CHECK(p.loss_and_count.to_double() == std::vector<double>{10, 4});
  CHECK(p.row_loss.to_double() == std::vector<double>(5, 0.0));
  CHECK(p.d_logits.to_double() == std::vector<double>(5 * 32, 0.0));
}

TEST_CASE("cross_entropy: the gradient may take the logits' place, and is optional") {
  const CrossEntropyCase c = {"alias", 6, 50, 56, 1e-3f, 3};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CrossEntropyProblem apart(c, dtype, dtype), in_place(c, dtype, dtype), loss_alone(c, dtype, dtype);
    cpu::cross_entropy(apart.args());
    auto a = in_place.args();
    a.d_logits = in_place.logits.data();
    cpu::cross_entropy(a);
    CHECK(in_place.logits.to_double() == apart.d_logits.to_double());
    a = loss_alone.args();
    a.d_logits = nullptr;
    cpu::cross_entropy(a);
    CHECK(loss_alone.row_loss.to_double() == apart.row_loss.to_double());
    CHECK(loss_alone.loss_and_count.to_double() == apart.loss_and_count.to_double());
  }
}

TEST_CASE("cross_entropy: chunks add up to the whole, to the bit") {
  const CrossEntropyCase c = {"whole", 23, 40, 40, 0.f, 5};
  CrossEntropyProblem whole(c, DType::f32, DType::bf16), chunks(c, DType::f32, DType::bf16);
  cpu::cross_entropy(whole.args());
  for (int64_t first = 0; first < c.rows; first += 9) {
    auto a = chunks.args();
    a.rows = std::min<int64_t>(9, c.rows - first);
    a.logits = chunks.logits.as<float>() + first * c.stride;
    a.d_logits = chunks.d_logits.as<uint16_t>() + first * c.stride;
    a.targets += first;
    a.row_loss += first;
    cpu::cross_entropy(a);
  }
  CHECK(chunks.d_logits.to_double() == whole.d_logits.to_double());
  CHECK(chunks.loss_and_count.to_double() == whole.loss_and_count.to_double());
}

TEST_CASE("cross_entropy: logits that are far apart or not finite") {
  CrossEntropyProblem p({"edge", 4, 20, 20}, DType::f32, DType::f32);
  const float infinity = std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < p.logits.size(); ++i) p.logits.set(i, 0);
  for (int64_t r = 0; r < 4; ++r) p.targets.set(r, 3);
  p.logits.set(0 * 20 + 3, 300);        // all the probability
  p.logits.set(1 * 20 + 7, 300);        // none
  p.logits.set(2 * 20 + 7, -infinity);  // a word that cannot be
  p.logits.set(3 * 20 + 7, NAN);
  cpu::cross_entropy(p.args());
  CHECK(p.row_loss.get(0) == 0);
  CHECK(p.d_logits.get(0 * 20 + 3) == 0);
  CHECK(p.row_loss.get(1) == 300);
  CHECK(p.d_logits.get(1 * 20 + 3) == -1);
  CHECK(p.d_logits.get(1 * 20 + 7) == 1);
  CHECK(p.row_loss.get(2) == Approx(std::log(19.0)));
  CHECK(p.d_logits.get(2 * 20 + 7) == 0);
  CHECK(std::isnan(p.row_loss.get(3)));
  CHECK(std::isnan(p.loss_and_count.get(0)));
}
