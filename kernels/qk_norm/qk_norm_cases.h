// The queries' and keys' norm's cases: what tests and benchmarks of every device run it on.
#pragma once

#include "kernels/common/cases.h"
#include "kernels/common/random.h"
#include "kernels/qk_norm/qk_norm.h"
#include "kernels/qk_norm/qk_norm_ref.h"

namespace genesis {

struct QkNormCase {
  const char* name;
  int64_t rows, H, KV, K;
  bool interleaved = false;
  int32_t farthest = 2048;  // positions are below it
  float theta = 500000.f;
  float eps = 1e-5f;
};

inline constexpr QkNormCase kQkNormCases[] = {
    {"one row", 1, 1, 1, 2},
    {"quickstart", 130, 3, 3, 64},
    {"interleaved", 130, 4, 2, 64, true},
    {"smallest head", 33, 3, 2, 8},
    {"odd half", 65, 3, 1, 10},
    {"odd half, interleaved", 65, 3, 1, 10, true},
    {"a half of no power of two", 40, 5, 2, 96},
    {"1B, a few rows a warp", 70, 12, 6, 128},
    {"largest head", 20, 2, 1, 256},
    {"largest head, interleaved", 20, 2, 1, 256, true},
    {"several rows a warp", 4500, 1, 1, 16},  // on CUDA, backward
    {"far, large eps, small theta", 70, 2, 1, 128, false, 131072, 10000.f, 0.5f},
};

inline constexpr QkNormCase kQkNormBenchCases[] = {
    {"quickstart", 4096, 3, 3, 64},
    {"genesis_1b", 8192, 12, 6, 128},
    {"genesis_1b_run1", 8192, 16, 4, 128},
};

struct QkNormProblem {
  QkNormCase c;
  DType dtype;
  Buffer positions, qkv, q_weight, k_weight, rotated, d_qkv, d_q_weight, d_k_weight, workspace;

  QkNormProblem(const QkNormCase& c, DType dtype, size_t workspace_bytes, const Memory& memory = kHostMemory)
      : c(c), dtype(dtype), positions(DType::i32, c.rows, memory) {
    for (Buffer* b : {&qkv, &rotated, &d_qkv}) *b = Buffer(dtype, c.rows * shape().row(), memory);
    for (Buffer* b : {&q_weight, &k_weight}) *b = Buffer(dtype, c.K, memory);
    for (Buffer* b : {&d_q_weight, &d_k_weight}) *b = Buffer(DType::f32, c.K, memory);
    workspace = workspace_buffer(workspace_bytes, memory);
    qkv.fill_normal(1, 0, 0.2, 2.0);
    q_weight.fill_normal(1, 1, 1.0, 0.3);
    k_weight.fill_normal(1, 2, 1.0, 0.3);
    d_qkv.fill_normal(1, 3);
    d_q_weight.fill(0.5);
    d_k_weight.fill(-0.5);
    for (int64_t row = 0; row < c.rows; ++row) {  // the farthest first
      const uint32_t back = row ? random_bits(1, 1, uint64_t(row)) % uint32_t(c.farthest) : 0;
      positions.as<int32_t>()[row] = c.farthest - 1 - int32_t(back);
    }
  }

  QkNormShape shape() const { return {c.rows, c.H, c.KV, c.K, dtype, c.interleaved, c.theta, c.eps}; }
  QkNormForward forward() const {
    return {shape(), positions.as<int32_t>(), qkv.data(), q_weight.data(), k_weight.data(), rotated.data()};
  }
  QkNormBackward backward() const {
    return {shape(),
            positions.as<int32_t>(),
            qkv.data(),
            q_weight.data(),
            k_weight.data(),
            d_qkv.data(),
            d_q_weight.as<float>(),
            d_k_weight.as<float>(),
            workspace.data()};
  }

  // Reading every input once and writing every output once.
  double forward_bytes() const {
    return small() + 2 * double(c.rows * shape().row()) * double(size_of(dtype));
  }
  double backward_bytes() const {
    return small() + 3 * double(c.rows * (c.H + c.KV) * c.K) * double(size_of(dtype)) + 2 * 8. * double(c.K);
  }

 private:
  // Positions and weights.
  double small() const { return 4. * double(c.rows) + 2. * double(c.K) * double(size_of(dtype)); }
};

// Angles count as exact: every device takes them from frequencies in double.
inline Result qk_norm_forward_result(const QkNormProblem& p) {
  const auto qkv = p.qkv.to_double(), q = p.q_weight.to_double(), k = p.k_weight.to_double();
  std::vector<double> expected(qkv.size());
  ref::qk_norm_forward(p.shape(), p.positions.as<int32_t>(), qkv.data(), q.data(), k.data(), expected.data());
  return {"rotated", &p.rotated, expected, rounding_tolerance(p.dtype, 2 * largest(expected), p.c.K)};
}

// Call before the backward pass: the reference needs the gradients as they were.
inline std::vector<Result> qk_norm_backward_results(const QkNormProblem& p) {
  const auto qkv = p.qkv.to_double(), q = p.q_weight.to_double(), k = p.k_weight.to_double();
  const std::vector<double> d_rotated = p.d_qkv.to_double();
  auto d_qkv = d_rotated, dq = p.d_q_weight.to_double(), dk = p.d_k_weight.to_double();
  ref::qk_norm_backward(p.shape(), p.positions.as<int32_t>(), qkv.data(), q.data(), k.data(), d_qkv.data(),
                        dq.data(), dk.data());

  // Bounds of |g|, |x * rstd| and rstd, and the sums of the sizes of what the weights' gradients add up.
  double largest_g = 0, normalised = 0, largest_rstd = 0;
  const int64_t K = p.c.K, heads = p.c.H + p.c.KV;
  std::vector<double> sums[2];
  for (auto& sum : sums) sum.assign(size_t(K), 0.5);
  for (int64_t head = 0; head < p.c.rows * heads; ++head) {
    const auto at = size_t(head / heads * p.shape().row() + head % heads * K);
    double squares = 0;
    for (size_t i = 0; i < size_t(K); ++i) squares += qkv[at + i] * qkv[at + i];
    const double rstd = 1 / std::sqrt(squares / double(K) + double(p.c.eps));
    for (int64_t i = 0; i < K; ++i) {
      const int64_t other = p.c.interleaved ? i ^ 1 : (i + K / 2) % K;  // of the pair
      const double g = std::hypot(d_rotated[at + size_t(i)], d_rotated[at + size_t(other)]);
      const double x = std::abs(qkv[at + size_t(i)] * rstd);
      sums[head % heads >= p.c.H][size_t(i)] += g * x;
      largest_g = std::max(largest_g, g);
      normalised = std::max(normalised, x);
    }
    largest_rstd = std::max(largest_rstd, rstd);
  }
  // mean(g w x) * rstd is at most the largest g w, since the mean square of x * rstd is at most 1.
  const double largest_weight = std::max(largest(q), largest(k));
  const double magnitude = largest_rstd * largest_g * largest_weight * (1 + normalised);
  const auto of_weight = [&](bool keys) {
    return rounding_tolerance(DType::f32, largest(sums[keys]), p.c.rows * (keys ? p.c.KV : p.c.H) + K);
  };
  return {{"d_qkv", &p.d_qkv, std::move(d_qkv), rounding_tolerance(p.dtype, magnitude, K)},
          {"d_q_weight", &p.d_q_weight, std::move(dq), of_weight(false)},
          {"d_k_weight", &p.d_k_weight, std::move(dk), of_weight(true)}};
}

}  // namespace genesis
