#include "kernels/cross_entropy/cross_entropy.h"

#include <numeric>

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

namespace {

// What storing logits as `dtype` (and their gradient as bf16) does to a loss and its gradient, against the reference
// on logits that nobody rounded: like those of a trained model, the target's among the largest.
struct LogitRounding {
  double largest = 0;                 // logit
  double worst_row = 0, rms_row = 0;  // of a row's loss: differences
  double mean = 0;                    // of the mean loss
  double gradient = 0;                // root mean square, relative to the gradient's

  LogitRounding(int64_t rows, int64_t V, DType dtype) {
    CrossEntropyProblem p({"", rows, V, V}, dtype, DType::bf16);
    auto logits = random_vector(rows * V, 3, 0, 2.5);
    std::vector<double> row_loss(static_cast<size_t>(rows)), lse(row_loss), d_logits(logits.size());
    for (int64_t r = 0; r < rows; ++r) {
      double& wanted = logits[size_t(r * V + p.targets.as<int32_t>()[r])];
      wanted = 8.0 + std::abs(wanted);  // its probability is some 0.02 to 0.99
    }
    for (int64_t i = 0; i < rows * V; ++i) p.logits.set(i, logits[size_t(i)]);
    const int32_t* targets = p.targets.as<int32_t>();
    ref::cross_entropy_forward(rows, V, V, logits.data(), targets, row_loss.data(), lse.data());
    ref::cross_entropy_backward(rows, V, V, 0.0, logits.data(), targets, lse.data(), d_logits.data());
    cpu::cross_entropy(p.args());

    double squares = 0, gradient_squares = 0, error_squares = 0;
    for (const double x : logits) largest = std::max(largest, std::abs(x));
    for (int64_t r = 0; r < rows; ++r) {
      const double error = p.row_loss.get(r) - row_loss[size_t(r)];
      worst_row = std::max(worst_row, std::abs(error));
      squares += error * error;
      mean += error / double(rows);
    }
    for (int64_t i = 0; i < rows * V; ++i) {
      const double error = p.d_logits.get(i) - d_logits[size_t(i)];
      gradient_squares += d_logits[size_t(i)] * d_logits[size_t(i)];
      error_squares += error * error;
    }
    rms_row = std::sqrt(squares / double(rows));
    gradient = std::sqrt(error_squares / gradient_squares);
  }
};

// A rounded logit is off by u |x| at most, evenly spread: 1/sqrt(3) of that on average. A row's loss has the target's
// error and the others' mean, the mean loss of independent rows a 1/sqrt(rows) of it (four standard deviations are
// allowed), a softmax the same relative errors, and the gradient's own rounding.
void check_logit_rounding(int64_t rows, int64_t V, DType dtype) {
  const LogitRounding found(rows, V, dtype);
  INFO(name_of(dtype) << " logits, largest " << found.largest << ": a row's loss is off by " << found.rms_row
                      << " (worst " << found.worst_row << "), the mean loss by " << found.mean
                      << ", the gradient by " << found.gradient);
  const double u = unit_roundoff(dtype),
               sums = unit_roundoff(DType::f32) * (double(V / 16 + 16) + 8 + 4 * found.largest);
  CHECK(found.worst_row <= 2 * u * found.largest + sums);
  CHECK(std::abs(found.mean) <= 4 * 2 * u * found.largest / std::sqrt(3 * double(rows)) + sums);
  CHECK(found.gradient <= 2 * u * found.largest + sums + unit_roundoff(DType::bf16));
  if (dtype == DType::bf16) CHECK(found.worst_row > u);  // it does round
}

}  // namespace

// docs/performance.md, "The output layer", has the figures of the long form.
TEST_CASE("cross_entropy: bf16 logits cost the loss and its gradient what their rounding says") {
  for (const DType dtype : {DType::f32, DType::bf16}) check_logit_rounding(64, 2048, dtype);
}
TEST_CASE("cross_entropy: bf16 logits of a large vocabulary", "[long][.]") {
  for (const DType dtype : {DType::f32, DType::bf16}) check_logit_rounding(512, 49152, dtype);
}

TEST_CASE("cross_entropy: ignored rows add nothing") {
  CrossEntropyProblem p({"all ignored", 5, 30, 32, 0.1f, 1}, DType::f32, DType::bf16);
  cpu::cross_entropy(p.args());
  CHECK(p.loss_and_count.to_double() == std::vector<double>{10, 4, 0, 0});
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

TEST_CASE("cross_entropy: the sum of losses and the count of tokens are right past what fp32 counts") {
  // 20 million tokens as the kernel adds them, a thousand a call. A plain fp32 count ends at 2^24, and a plain sum of
  // such losses is 4% short there.
  LossSum sum;
  const int64_t calls = 20'000, rows_of_call = 1000;
  double loss_in_all = 0;
  uint32_t random = 1;
  for (int64_t i = 0; i < calls; ++i) {
    for (int64_t row = 0; row < rows_of_call; ++row) {
      random =
          1664525 * random + 1013904223;  // Knuth & Lewis's: 20 million of counter-based ones take a second
      const float loss = 6 * float(random >> 8) / 0x1p24f;
      sum.loss += loss;
      sum.count += 1;
      loss_in_all += double(loss);
    }
    sum.carry();
  }
  CHECK(sum.total_count() == double(calls * rows_of_call));
  CHECK(sum.total_loss() == Approx(loss_in_all).epsilon(1e-3));
  CHECK(sum.count < LossSum::kCarried);

  CrossEntropyProblem p({"carried", 100, 16, 16}, DType::f32, DType::f32);
  *p.loss_and_count.as<LossSum>() = {2e6f, LossSum::kCarried - 30, 1e8f, 40};
  cpu::cross_entropy(p.args());
  const auto rows = p.row_loss.to_double();
  const double loss = std::accumulate(rows.begin(), rows.end(), 0.0);
  sum = *p.loss_and_count.as<LossSum>();
  CHECK(sum.count == 70);
  CHECK(sum.count_before == 41);
  CHECK(sum.total_count() == 41.0 * 0x1p20 + 70);
  CHECK(sum.total_loss() == Approx(1e8 + 2e6 + loss).margin(8));
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
