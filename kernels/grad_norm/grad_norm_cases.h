// The gradient norm's cases: what tests and benchmarks of every device run it on.
#pragma once

#include <new>

#include "kernels/common/cases.h"
#include "kernels/grad_norm/grad_norm.h"
#include "kernels/grad_norm/grad_norm_ref.h"

namespace genesis {

struct GradNormCase {
  const char* name;
  std::vector<int64_t> sizes;  // of the tensors
  float max_norm = 1.f;
  LossSum tokens{5.f, 1.f};
};

inline const std::vector<GradNormCase>& grad_norm_cases() {
  static const std::vector<GradNormCase> cases = {
      {"one element", {1}},
      {"a vector and a bit", {17}},
      {"many tensors", {256, 1, 70000, 65536, 3, 16384, 16385, 100}, 1.f, {5.f, 512.f}},
      {"no clipping", {1000, 1000}, 0.f, {5.f, 3.f}},
      {"below the limit", {1000, 1000}, 1e6f, {5.f, 3.f}},
      {"a tensor without elements", {100, 0, 100}},
      {"no valid token", {1000}, 1.f, {5.f, 0.f}},
      {"a loss that is not finite", {1000, 20}, 1.f, {INFINITY, 3.f}},
      {"a loss that is not a number", {1000, 20}, 1.f, {NAN, 3.f}},
      {"more tokens than fp32 counts", {1000, 20}, 1e-3f, {5.f, 1.f, 1e8f, 32.f}},
      {"a loss that was not finite before", {1000, 20}, 1.f, {5.f, 1.f, NAN, 1.f}},
  };
  return cases;
}

inline const std::vector<GradNormCase>& grad_norm_bench_cases() {
  static const std::vector<GradNormCase> cases = {
      {"quickstart, 5.5M", {1048576, 262144, 262144, 1441792, 1441792, 1048576, 4096}},
      {"100M", {50331648, 25165824, 25165824, 2048}},
  };
  return cases;
}

struct GradNormProblem {
  GradNormCase c;
  std::vector<Buffer> grads;
  Buffer tensors, loss_and_count, norm_and_scale, workspace;
  int64_t elements = 0;

  explicit GradNormProblem(const GradNormCase& c, const Memory& memory = kHostMemory) : c(c) {
    tensors = workspace_buffer(c.sizes.size() * sizeof(GradTensor), memory);
    for (size_t i = 0; i < c.sizes.size(); ++i) {
      grads.emplace_back(DType::f32, c.sizes[i], memory);
      grads[i].fill_normal(1, i);
      new (tensors.as<GradTensor>() + i) GradTensor{grads[i].as<float>(), c.sizes[i]};
      elements += c.sizes[i];
    }
    loss_and_count = Buffer(DType::f32, kLossSumFloats, memory);
    *loss_and_count.as<LossSum>() = c.tokens;
    norm_and_scale = Buffer(DType::f32, 2, memory);
  }

  int64_t count() const { return int64_t(c.sizes.size()); }
  void set_workspace(size_t bytes, const Memory& memory = kHostMemory) {
    workspace = workspace_buffer(bytes, memory);
  }
  GradNorm args() const {
    return {tensors.as<GradTensor>(),   count(),         elements, c.max_norm, loss_and_count.as<LossSum>(),
            norm_and_scale.as<float>(), workspace.data()};
  }

  double bytes() const { return 4.0 * double(elements); }
};

inline std::vector<Result> grad_norm_results(const GradNormProblem& p) {
  std::vector<std::vector<double>> grads;
  for (const auto& g : p.grads) grads.push_back(g.to_double());
  const auto expected =
      ref::grad_norm(grads, double(p.c.max_norm), p.c.tokens.total_loss(), p.c.tokens.total_count());
  // A pairwise sum over blocks, each of at most 64 serial additions in a lane; the square root halves its
  // error.
  const int64_t terms = (64 + int64_t(std::log2(double(p.elements)))) / 2;
  return {{"norm",
           &p.norm_and_scale,
           {expected.norm, expected.scale},
           {unit_roundoff(DType::f32) * double(terms + 4), 0}}};
}

}  // namespace genesis
