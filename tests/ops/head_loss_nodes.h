#pragma once

#include "engine/ops/head_loss.h"
#include "kernels/common/random.h"
#include "kernels/cross_entropy/cross_entropy_ref.h"
#include "kernels/cross_entropy/loss_sum.h"
#include "kernels/matmul/matmul_ref.h"
#include "tests/ops/one_node.h"

namespace genesis {

// The output layer's cases stand here: it is made of two ops' kernels and has no folder of its own.
struct HeadLossCase {
  const char* name;
  int64_t rows, D, V;
  int chunk;
  bool gradient = true;
  float z_loss = 0.f;
};

inline constexpr HeadLossCase kHeadLossCases[] = {
    {"one chunk", 20, 24, 40, 64},
    {"whole chunks", 96, 32, 56, 32},
    {"a last chunk that is shorter", 50, 40, 72, 16},
    {"loss alone", 50, 40, 72, 16, false},
    {"z-loss", 24, 24, 64, 16, true, 0.01f},
};

struct HeadLossProblem {
  HeadLossCase c;
  DType dtype;
  Buffer x, weight, targets, loss_and_count, d_weight, d_x;

  HeadLossProblem(const HeadLossCase& c, DType dtype)
      : c(c),
        dtype(dtype),
        x(dtype, c.rows * c.D),
        weight(dtype, c.V * c.D),
        targets(DType::i32, c.rows),
        loss_and_count(DType::f32, kLossSumFloats),
        d_weight(DType::f32, c.V * c.D),
        d_x(dtype, c.rows * c.D) {
    x.fill_normal(1, 0);
    weight.fill_normal(1, 1, 0, 0.3);
    loss_and_count.fill(0);
    d_weight.fill(0.5);
    for (int64_t r = 0; r < c.rows; ++r) {
      targets.set(r, r % 5 == 2 ? -1 : double(random_bits(1, 2, uint64_t(r)) % uint64_t(c.V)));
    }
  }
};

// Call before the op, which adds to what is there.
inline std::vector<Result> head_loss_results(const HeadLossProblem& p, DeviceKind device) {
  const auto [name, rows, D, V, chunk, gradient, z_loss] = p.c;
  const auto x = p.x.to_double(), weight = p.weight.to_double();
  const auto sizes = [](std::vector<double> v) {
    for (double& e : v) e = std::abs(e);
    return v;
  };
  const MatMulShape forward{.M = rows, .N = V, .K = D, .transpose_b = true};
  std::vector<double> logits(size_t(rows * V)), logit_sizes(logits), d_logits(logits);
  ref::matmul(forward, x.data(), weight.data(), logits.data());
  ref::matmul(forward, sizes(x).data(), sizes(weight).data(), logit_sizes.data());
  std::vector<double> row_loss(static_cast<size_t>(rows)), lse(row_loss);
  const int32_t* targets = p.targets.as<int32_t>();
  ref::cross_entropy_forward(rows, V, V, logits.data(), targets, row_loss.data(), lse.data());
  ref::cross_entropy_backward(rows, V, V, double(z_loss), logits.data(), targets, lse.data(),
                              d_logits.data());

  // A logit's error is that of its fp32 sum; exp makes a relative one of it, which the bound on cross_entropy's own
  // (kernels/cross_entropy/cross_entropy_cases.h) is added to.
  const double u32 = unit_roundoff(DType::f32), u = unit_roundoff(p.dtype), top = largest(logit_sizes);
  // A GPU stores logits in the model's type.
  const double logit = u32 * double(D + 4) * top + (device == DeviceKind::cuda ? u * largest(logits) : 0);
  const double loss_error = 2 * logit + u32 * (double(V) + 24 + 4 * top);
  double loss = 0, valid = 0;
  for (int64_t r = 0; r < rows; ++r) loss += row_loss[size_t(r)], valid += targets[r] >= 0;
  std::vector<Result> results{{"loss and count",
                               &p.loss_and_count,
                               {loss, valid, 0, 0},
                               {u32 * double(rows + 1), double(rows) * loss_error}}};
  if (!gradient) return results;

  // p - 1 at the target is what is left of two numbers up to 1: an absolute error beside the relative one.
  const double relative = u + loss_error + u32 * double(rows + V), absolute = 2 * loss_error;
  const auto product = [&](const char* of, const MatMulShape& shape, const Buffer& found,
                           const std::vector<double>& other, std::vector<double> sum) {
    std::vector<double> magnitude(sum.size()), other_sums(sum.size());
    const std::vector<double> ones(d_logits.size(), 1.0);
    ref::matmul(shape, d_logits.data(), other.data(), sum.data());
    ref::matmul(shape, sizes(d_logits).data(), sizes(other).data(), magnitude.data());
    ref::matmul(shape, ones.data(), sizes(other).data(), other_sums.data());
    const double allowed = relative * (largest(magnitude) + 0.5) + absolute * largest(other_sums);
    results.push_back({of, &found, std::move(sum), {unit_roundoff(found.dtype()), allowed}});
  };
  product("d_x", {.M = rows, .N = D, .K = V}, p.d_x, weight, std::vector<double>(x.size()));
  product("d_weight", {.M = V, .N = D, .K = rows, .transpose_a = true, .accumulate = true}, p.d_weight, x,
          p.d_weight.to_double());
  return results;
}

inline void check_head_loss(Device& device) {
  for (const auto& c : kHeadLossCases) {
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const HeadLossProblem p(c, dtype);
      const auto expected = head_loss_results(p, device.kind());
      const HeadLossAttrs attrs{c.z_loss, c.chunk, c.gradient};
      std::vector<Array> out, into{{p.loss_and_count, {kLossSumFloats}}};
      if (c.gradient) {
        out.push_back({p.d_x, {c.rows, c.D}});
        into.push_back({p.d_weight, {c.V, c.D}});
      }
      OneNode(device, ops::kHeadLoss, attrs,
              {{p.x, {c.rows, c.D}}, {p.weight, {c.V, c.D}}, {p.targets, {c.rows}}}, out, into);
      check_results(expected);
    }
  }
}

}  // namespace genesis
