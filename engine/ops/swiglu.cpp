#include "engine/ops/swiglu.h"

#include <fmt/format.h>

#include "engine/ops/differentiator.h"
#include "engine/ops/helpers.h"
#include "kernels/swiglu/swiglu.h"

namespace genesis::ops {
namespace {

std::string text(const Node& n) {
  const auto& a = attrs_of<SwiGluAttrs>(n);
  return a.clamp > 0 ? fmt::format("clamp={:g}", a.clamp) : "";
}

// in: gate_up [rows, 2F] -> y [rows, F]
std::vector<ValueType> infer(const Graph& g, const Node& n) {
  const Value& x = input(g, n, 0);
  check_input(x.shape.rank() == 2 && x.shape[1] % 2 == 0, g, n, "gate|up [rows, 2F]");
  return {{{x.shape[0], x.shape[1] / 2}, x.dtype}};
}

void grad(Differentiator& d, NodeId id) {
  const Node n = d.node(id);
  d.contribute(n.in[0], d.append(id, kSwiGluBackward, n.attrs, {d.grad(n.out[0]), n.in[0]},
                                 {d.grad_name(n.in[0]), ""})[0]);
}

ValueId given_again(const Node& forward, const Node& backward) {
  return backward.op == &kSwiGluBackward && backward.in[1] == forward.in[0] ? forward.out[0] : kNone;
}

template <auto launch>
Run prepare(const BoundNode& b) {
  SwiGluForward a;
  a.rows = b.out_value(0).shape[0];
  a.F = b.out_value(0).shape[1];
  a.dtype = b.out_value(0).dtype;
  a.clamp = b.attrs<SwiGluAttrs>().clamp;
  a.gate_up = b.in[0];
  a.y = b.out[0];
  return call(launch, a);
}

// in: dy [rows, F], gate_up [rows, 2F] -> d_gate_up, y again in place of dy
std::vector<ValueType> infer_backward(const Graph& g, const Node& n) {
  const Value &dy = input(g, n, 0), &x = input(g, n, 1);
  check_input(dy.shape.rank() == 2 && x.shape == Shape{dy.shape[0], 2 * dy.shape[1]}, g, n,
              "dy [rows, F] and gate|up [rows, 2F]");
  return {type_of(x), type_of(dy)};
}

template <auto launch>
Run prepare_backward(const BoundNode& b) {
  SwiGluBackward a;
  a.rows = b.in_value(0).shape[0];
  a.F = b.in_value(0).shape[1];
  a.dtype = b.in_value(0).dtype;
  a.clamp = b.attrs<SwiGluAttrs>().clamp;
  a.dy = b.in[0];
  a.gate_up = b.in[1];
  a.d_gate_up = b.out[0];
  a.y = b.out[1];
  return call(launch, a);
}

}  // namespace

const OpDef kSwiGlu{.name = "swiglu",
                    .text = text,
                    .infer = infer,
                    .grad = grad,
                    .cost = elementwise_cost<5>,
                    .cpu = {prepare<cpu::swiglu_forward>},
                    .cuda = {prepare<cuda::swiglu_forward>},
                    .given_again = given_again};
const OpDef kSwiGluBackward{.name = "swiglu_backward",
                            .text = text,
                            .infer = infer_backward,
                            .cost = elementwise_cost<12>,
                            .cpu = {prepare_backward<cpu::swiglu_backward>},
                            .cuda = {prepare_backward<cuda::swiglu_backward>},
                            .in_place = 1};

}  // namespace genesis::ops
