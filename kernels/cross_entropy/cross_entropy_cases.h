// Cross-entropy's cases: what tests and benchmarks of every device run it on.
#pragma once

#include "kernels/common/cases.h"
#include "kernels/common/random.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_ref.h"

namespace genesis {

struct CrossEntropyCase {
  const char* name;
  int64_t rows, V, stride;
  float z_loss = 0.f;
  int64_t ignore_every = 0;  // rows r with r % ignore_every == 0 are ignored; 0: none is
  double deviation = 2.0;    // of the logits
};

inline constexpr CrossEntropyCase kCrossEntropyCases[] = {
    {"one row", 1, 64, 64},
    {"one word", 3, 1, 1},
    {"a vector and a bit", 6, 17, 17},
    {"quickstart vocabulary", 9, 4096, 4096},
    {"some rows ignored", 10, 1000, 1000, 0.f, 3},
    {"all rows ignored", 5, 100, 104, 0.f, 1},
    {"padded vocabulary", 7, 4001, 4096},
    {"z-loss", 8, 500, 512, 1e-2f, 4},
    {"peaked", 8, 512, 512, 0.f, 0, 30.0},
    {"some accesses a thread", 2, 12290, 12296},
    {"1B vocabulary", 2, 49152, 49152, 1e-3f},
    {"a large vocabulary", 2, 129280, 129280},
};

inline constexpr CrossEntropyCase kCrossEntropyBenchCases[] = {
    {"quickstart", 1024, 4096, 4096},
    {"genesis_1b", 1024, 49152, 49152},
    {"nano_1b", 512, 129280, 129280},
};

struct CrossEntropyProblem {
  CrossEntropyCase c;
  DType logits_dtype, d_logits_dtype;
  Buffer logits, targets, d_logits, row_loss, loss_and_count, workspace;

  CrossEntropyProblem(const CrossEntropyCase& c, DType logits_dtype, DType d_logits_dtype,
                      const Memory& memory = kHostMemory)
      : c(c), logits_dtype(logits_dtype), d_logits_dtype(d_logits_dtype) {
    logits = Buffer(logits_dtype, c.rows * c.stride, memory);
    d_logits = Buffer(d_logits_dtype, c.rows * c.stride, memory);
    targets = Buffer(DType::i32, c.rows, memory);
    row_loss = Buffer(DType::f32, c.rows, memory);
    loss_and_count = Buffer(DType::f32, kLossSumFloats, memory);
    loss_and_count.fill(0);
    workspace = workspace_buffer(cpu::cross_entropy_workspace(c.V), memory);
    logits.fill_normal(1, 0, 0.5, c.deviation);
    for (int64_t r = 0; r < c.rows; ++r) {
      const bool ignored = c.ignore_every && r % c.ignore_every == 0;
      targets.set(r, ignored ? -1.0 : double(random_bits(1, 1, uint64_t(r)) % uint32_t(c.V)));
      // What the padding holds is nobody's business: it would win any softmax it took part in.
      for (int64_t v = c.V; v < c.stride; ++v) logits.set(r * c.stride + v, 1e30);
    }
    targets.set(c.rows - 1, targets.get(c.rows - 1) < 0 ? -100.0 : double(c.V - 1));
    loss_and_count.set(0, 10);  // of earlier chunks
    loss_and_count.set(1, 4);
  }

  CrossEntropy args() const {
    return {c.rows,
            c.V,
            c.stride,
            logits_dtype,
            d_logits_dtype,
            c.z_loss,
            logits.data(),
            targets.as<int32_t>(),
            d_logits.data(),
            row_loss.as<float>(),
            loss_and_count.as<LossSum>(),
            workspace.data()};
  }

  // Bytes that reading the logits once and writing their gradient once moves.
  double bytes() const {
    return double(c.rows) * double(c.stride) * double(size_of(logits_dtype) + size_of(d_logits_dtype));
  }
};

// Call before the op: it adds to loss_and_count.
inline std::vector<Result> cross_entropy_results(const CrossEntropyProblem& p) {
  const int64_t rows = p.c.rows, V = p.c.V, stride = p.c.stride;
  const auto logits = p.logits.to_double();
  const int32_t* targets = p.targets.as<int32_t>();
  std::vector<double> row_loss(p.row_loss.to_double()), lse(row_loss), d_logits(logits.size());
  ref::cross_entropy_forward(rows, V, stride, logits.data(), targets, row_loss.data(), lse.data());
  ref::cross_entropy_backward(rows, V, stride, double(p.c.z_loss), logits.data(), targets, lse.data(),
                              d_logits.data());
  auto loss_and_count = p.loss_and_count.to_double();
  double top = 0;  // bounds |logit|
  for (int64_t r = 0; r < rows; ++r) {
    loss_and_count[0] += row_loss[size_t(r)];
    loss_and_count[1] += targets[r] >= 0;
    for (int64_t v = 0; v < V; ++v) top = std::max(top, std::abs(logits[size_t(r * stride + v)]));
  }
  // The sum over V has at least 16 partial sums in any version that uses vectors or a warp. exp magnifies the
  // rounding of its argument, |x| <= 2 top, to a relative error; rounding lse and the loss add their own.
  const double u = unit_roundoff(DType::f32);
  const double lse_error = u * (double(V / 16 + 16) + 8 + 4 * top);
  const double exp_error = lse_error + u * (2 * top + 8);
  return {
      {"row_loss", &p.row_loss, std::move(row_loss), {u, lse_error}},
      {"d_logits", &p.d_logits, std::move(d_logits), {unit_roundoff(p.d_logits_dtype) + exp_error, 4 * u}},
      {"loss_and_count",
       &p.loss_and_count,
       loss_and_count,
       {u * double(rows + 1), double(rows) * lse_error}}};
}

}  // namespace genesis
