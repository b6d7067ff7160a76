// AdamW's cases: what tests and benchmarks of every device run it on.
#pragma once

#include <new>

#include "kernels/adamw/adamw.h"
#include "kernels/adamw/adamw_ref.h"
#include "kernels/common/bf16.h"
#include "kernels/common/cases.h"

namespace genesis {

struct AdamWCase {
  const char* name;
  std::vector<int64_t> sizes;  // of the tensors; every second one is not decayed
  bool copy = true;            // a bf16 copy of each
  int step = 1;
  float scale = 0.25f;
};

inline const std::vector<AdamWCase>& adamw_cases() {
  static const std::vector<AdamWCase> cases = {
      {"one element", {1}},
      {"a vector and a bit", {17, 15}},
      {"no copy", {300, 16}, false},
      {"many tensors", {256, 1, 70000, 65536, 3, 16384, 16385, 100}, true, 7},
      {"a tensor without elements", {100, 0, 100}},
      {"late", {1000, 1000}, true, 100000, 1e-6f},
      {"no gradient", {100}, true, 3, 0.f},
  };
  return cases;
}

inline const std::vector<AdamWCase>& adamw_bench_cases() {
  static const std::vector<AdamWCase> cases = {
      {"quickstart, 5.5M", {1048576, 262144, 262144, 1441792, 1441792, 1048576, 4096}},
      {"100M", {50331648, 25165824, 25165824, 2048}},
  };
  return cases;
}

struct AdamWProblem {
  struct Arrays {
    Buffer master, m, v, grad, copy;
  };
  AdamWCase c;
  std::vector<Arrays> arrays;
  Buffer tensors, step, norm_and_scale;
  int64_t elements = 0;

  explicit AdamWProblem(const AdamWCase& c, const Memory& memory = kHostMemory) : c(c) {
    tensors = workspace_buffer(c.sizes.size() * sizeof(AdamWTensor), memory);
    step = Buffer(DType::f32, 3, memory);
    step.set(0, 0.01);
    step.set(1, 1 - std::pow(0.9, c.step));
    step.set(2, 1 - std::pow(0.95, c.step));
    norm_and_scale = Buffer(DType::f32, 2, memory);
    norm_and_scale.set(0, 4);
    norm_and_scale.set(1, c.scale);
    for (size_t i = 0; i < c.sizes.size(); ++i) add_tensor(i, memory);
  }

  AdamW args() const {
    return {tensors.as<AdamWTensor>(), int64_t(c.sizes.size()),   elements, 0.9f, 0.95f, 1e-8f,
            step.as<AdamWStep>(),      norm_and_scale.as<float>()};
  }

  // Master, m and v read and written, the gradient read, the copy written.
  double bytes() const { return (28.0 + (c.copy ? 2 : 0)) * double(elements); }

 private:
  void add_tensor(size_t i, const Memory& memory) {
    Arrays a;
    const int64_t n = c.sizes[i];
    for (Buffer* b : {&a.master, &a.m, &a.v, &a.grad}) *b = Buffer(DType::f32, n, memory);
    if (c.copy) a.copy = Buffer(DType::bf16, n, memory);
    a.master.fill_normal(1, 4 * i);
    a.grad.fill_normal(1, 4 * i + 1);
    a.m.fill_normal(1, 4 * i + 2, 0, 0.1);
    a.v.fill_normal(1, 4 * i + 3, 0, 0.1);
    for (int64_t k = 0; k < n; ++k) a.v.set(k, std::abs(a.v.get(k)));
    new (tensors.as<AdamWTensor>() + i) AdamWTensor{a.master.as<float>(), a.m.as<float>(), a.v.as<float>(),
                                                    a.grad.as<float>(),   a.copy.data(),   n,
                                                    i % 2 ? 0.f : 0.1f};
    arrays.push_back(std::move(a));
    elements += n;
  }
};

// Call before the op, which changes its inputs. The copies are compared by adamw_copy_results.
inline std::vector<Result> adamw_results(const AdamWProblem& p) {
  const AdamW args = p.args();
  const double u = unit_roundoff(DType::f32);
  std::vector<Result> results;
  for (size_t i = 0; i < p.arrays.size(); ++i) {
    const auto& a = p.arrays[i];
    const double decay = args.tensors[i].weight_decay;
    const ref::AdamWSettings<double> settings = {args.beta1,
                                                 args.beta2,
                                                 args.eps,
                                                 decay,
                                                 args.step->lr,
                                                 args.step->correction1,
                                                 args.step->correction2,
                                                 args.norm_and_scale[1]};
    auto master = a.master.to_double(), m = a.m.to_double(), v = a.v.to_double();
    const auto grad = a.grad.to_double();
    double m_size = 0, step_size = 0;  // of the terms that may cancel
    for (size_t k = 0; k < master.size(); ++k) {
      const double terms = std::abs(m[k]) + std::abs(settings.scale * grad[k]);
      ref::adamw(settings, grad[k], master[k], m[k], v[k]);
      m_size = std::max(m_size, terms);
      step_size = std::max(
          step_size, terms / settings.correction1 / (std::sqrt(v[k] / settings.correction2) + settings.eps) +
                         decay * std::abs(master[k]));
    }
    const std::string of_tensor = " of tensor " + std::to_string(i);
    // Some ten roundings lead to the step, which lr makes small against the master.
    results.push_back({"m" + of_tensor, &a.m, std::move(m), {u, 4 * u * m_size}});
    results.push_back({"v" + of_tensor, &a.v, std::move(v), {6 * u, 0x1p-126}});
    results.push_back(
        {"master" + of_tensor, &a.master, std::move(master), {2 * u, 16 * u * settings.lr * step_size}});
  }
  return results;
}

// Call after the op: each copy is its master, rounded.
inline std::vector<Result> adamw_copy_results(const AdamWProblem& p) {
  std::vector<Result> results;
  for (const auto& a : p.arrays) {
    if (!p.c.copy) continue;
    auto rounded = a.master.to_double();
    for (double& w : rounded) w = double(float(bf16(float(w))));
    results.push_back({"copy", &a.copy, std::move(rounded), {}});
  }
  return results;
}

}  // namespace genesis
