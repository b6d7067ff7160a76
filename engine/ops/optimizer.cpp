#include "engine/ops/optimizer.h"

#include <fmt/format.h>

#include "engine/ops/helpers.h"
#include "kernels/adamw/adamw.h"
#include "kernels/common/bf16.h"
#include "kernels/grad_norm/grad_norm.h"

namespace genesis::ops {
namespace {

constexpr int64_t kVector = 8;  // a slice's arrays are aligned as the kernels' vectors are

std::string text_norm(const Node& n) {
  return fmt::format("max_norm={:g}", attrs_of<GradNormAttrs>(n).max_norm);
}

std::string text_adamw(const Node& n) {
  const auto& a = attrs_of<AdamWAttrs>(n);
  return fmt::format("beta1={:g} beta2={:g} eps={:g} tensors={}", a.beta1, a.beta2, a.eps, a.tensors.size());
}

// in: loss_and_count, then the gradients; into: norm_and_scale
std::vector<ValueType> infer_norm(const Graph& g, const Node& n) {
  check_input(input(g, n, 0).shape.elements() == kLossSumFloats, g, n, "a LossSum");
  for (size_t i = 1; i < n.in.size(); ++i) {
    check_input(input(g, n, i).dtype == DType::f32, g, n, "gradients in f32");
  }
  check_into(g, n, 0, {{2}, DType::f32});
  return {};
}

std::vector<GradTensor> gradients(const Graph& g, const Node& n) {
  std::vector<GradTensor> tensors;
  for (size_t i = 1; i < n.in.size(); ++i) tensors.push_back({nullptr, input(g, n, i).shape.elements()});
  return tensors;
}

template <auto launch>
Run prepare_norm(const BoundNode& b) {
  auto tensors = gradients(b.graph, b.node);
  GradNorm a;
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].grad = as<float>(b.in[i + 1]);
    a.elements += tensors[i].n;
  }
  a.tensors = b.upload(tensors);
  a.count = int64_t(tensors.size());
  a.max_norm = b.attrs<GradNormAttrs>().max_norm;
  a.loss_and_count = as<LossSum>(b.in[0]);
  a.norm_and_scale = as<float>(b.into[0]);
  a.workspace = b.workspace;
  return call(launch, a);
}

template <auto workspace>
size_t workspace_norm(const Graph& g, const Node& n) {
  const auto tensors = gradients(g, n);
  return workspace(tensors.data(), int64_t(tensors.size()));
}

size_t constants_norm(const Graph&, const Node& n) { return (n.in.size() - 1) * sizeof(GradTensor); }

Cost cost_norm(const Graph& g, const Node& n) {
  const double bytes = bytes_touched(g, n);
  return one_kernel(n, Unit::fma, bytes / 2, bytes, 2);  // blocks' sums, and theirs
}

// in: step [3], norm_and_scale [2], then the gradients
// into: masters, first moments, second moments, then compute copies (none where the master is computed with),
//       each as many as there are gradients
// The moments may be of a slice of the gradient's elements, [count]; then the master may be, too.
std::vector<ValueType> infer_adamw(const Graph& g, const Node& n) {
  check_input(n.in.size() > 2, g, n, "a step, norm and scale, and gradients");
  const size_t count = n.in.size() - 2;
  check_input(n.into.size() == 3 * count || n.into.size() == 4 * count, g, n,
              "a master, two moments and perhaps a copy a gradient");
  const auto& tensors = attrs_of<AdamWAttrs>(n).tensors;
  check_input(tensors.size() == count, g, n, "attributes for each tensor");
  for (size_t i = 0; i < count; ++i) {
    const Shape whole = input(g, n, 2 + i).shape, state = g.value(n.into[count + i]).shape;
    const int64_t begin = tensors[i].begin;
    check_input(begin >= 0 && begin % kVector == 0 && begin + state.elements() <= whole.elements(), g, n,
                "a slice that begins at a multiple of 8 and ends inside its gradient");
    check_input(state.rank() == 1 || state == whole, g, n, "moments of the gradient's shape, or of a slice");
    const Shape master = g.value(n.into[i]).shape;
    check_into(g, n, i, {master == state ? state : whole, DType::f32});
    for (const size_t moment : {count, 2 * count}) check_into(g, n, moment + i, {state, DType::f32});
    if (n.into.size() == 4 * count) check_into(g, n, 3 * count + i, {whole, DType::bf16});
  }
  return {};
}

// Where a slice begins in an array of all the elements, or of the slice alone.
template <class T>
T* slice(void* data, const Value& v, int64_t begin, int64_t count) {
  return as<T>(data) + (v.shape.elements() == count ? 0 : begin);
}

template <auto launch>
Run prepare_adamw(const BoundNode& b) {
  const auto& attrs = b.attrs<AdamWAttrs>();
  const size_t count = b.in.size() - 2;
  std::vector<AdamWTensor> tensors(count);
  AdamW a;
  for (size_t i = 0; i < count; ++i) {
    AdamWTensor& t = tensors[i];
    const int64_t begin = attrs.tensors[i].begin;
    t.n = b.into_value(count + i).shape.elements();
    t.weight_decay = attrs.tensors[i].weight_decay;
    t.grad = slice<float>(b.in[2 + i], b.in_value(2 + i), begin, t.n);
    t.master = slice<float>(b.into[i], b.into_value(i), begin, t.n);
    t.m = as<float>(b.into[count + i]);
    t.v = as<float>(b.into[2 * count + i]);
    if (b.into.size() == 4 * count) {
      t.copy = slice<bf16>(b.into[3 * count + i], b.into_value(3 * count + i), begin, t.n);
    }
    a.elements += t.n;
  }
  a.tensors = b.upload(tensors);
  a.count = int64_t(count);
  a.beta1 = attrs.beta1;
  a.beta2 = attrs.beta2;
  a.eps = attrs.eps;
  a.step = as<AdamWStep>(b.in[0]);
  a.norm_and_scale = as<float>(b.in[1]);
  return call(launch, a);
}

size_t constants_adamw(const Graph&, const Node& n) { return (n.in.size() - 2) * sizeof(AdamWTensor); }

Cost cost_adamw(const Graph& g, const Node& n) {
  const size_t count = n.in.size() - 2;
  double elements = 0;
  for (size_t i = 0; i < count; ++i) elements += double(g.value(n.into[count + i]).shape.elements());
  // Master and moments are read and written, the gradient read, a copy written.
  const double copy = n.into.size() == 4 * count ? size_of(DType::bf16) : 0;
  const double small = double(input(g, n, 0).bytes() + input(g, n, 1).bytes());
  return one_kernel(n, Unit::fma, 15 * elements, (28 + copy) * elements + small);
}

}  // namespace

const OpDef kGradNorm{.name = "grad_norm",
                      .text = text_norm,
                      .infer = infer_norm,
                      .cost = cost_norm,
                      .constants = constants_norm,
                      .cpu = {prepare_norm<cpu::grad_norm>, workspace_norm<cpu::grad_norm_workspace>},
                      .cuda = {prepare_norm<cuda::grad_norm>, workspace_norm<cuda::grad_norm_workspace>}};
const OpDef kAdamW{.name = "adamw",
                   .text = text_adamw,
                   .infer = infer_adamw,
                   .cost = cost_adamw,
                   .constants = constants_adamw,
                   .cpu = {prepare_adamw<cpu::adamw>},
                   .cuda = {prepare_adamw<cuda::adamw>}};

}  // namespace genesis::ops
