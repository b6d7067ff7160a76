#include "engine/ops/rmsnorm.h"

#include <fmt/format.h>

#include "engine/ops/differentiator.h"
#include "engine/ops/helpers.h"
#include "kernels/rmsnorm/rmsnorm.h"

namespace genesis::ops {
namespace {

std::string text(const Node& n) { return fmt::format("eps={:g}", attrs_of<NormAttrs>(n).eps); }

// in: x [rows, D], residual [rows, D] or none, weight [D] -> h (none without a residual), y, rstd [rows]
std::vector<ValueType> infer(const Graph& g, const Node& n) {
  const Value &x = input(g, n, 0), &weight = input(g, n, 2);
  check_input(x.shape.rank() == 2 && weight.shape == Shape{x.shape[1]}, g, n, "x [rows, D] and a weight [D]");
  check_input(n.in[1] == kNone || input(g, n, 1).shape == x.shape, g, n, "a residual of x's shape");
  return {type_of(x), type_of(x), {{x.shape[0]}, DType::f32}};
}

void grad(Differentiator& d, NodeId id) {
  const Node n = d.node(id);
  const ValueId h = n.in[1] == kNone ? n.in[0] : n.out[0];
  // The gradient that reaches h by other ways is added in the same pass.
  const ValueId dh =
      d.append(id, kRmsNormBackward, n.attrs, {d.grad(n.out[1]), d.grad(h), h, n.out[2], n.in[2]},
               {d.grad_name(h), ""}, {d.gradient_buffer(n.in[2])})[0];
  if (n.in[1] == kNone) {
    d.replace(n.in[0], dh);
  } else {
    d.contribute(n.in[0], dh);
    d.contribute(n.in[1], dh);
  }
}

template <auto launch>
Run prepare(const BoundNode& b) {
  RmsNormForward a;
  a.rows = b.in_value(0).shape[0];
  a.D = b.in_value(0).shape[1];
  a.dtype = b.in_value(0).dtype;
  a.eps = b.attrs<NormAttrs>().eps;
  a.x = b.in[0];
  a.residual = b.in[1];
  a.weight = b.in[2];
  a.h = b.out[0];
  a.y = b.out[1];
  a.rstd = as<float>(b.out[2]);
  return call(launch, a);
}

// y and rstd follow from a kept h alone, with the same bits.
bool replay_from(Node& copy, ValueId kept) {
  if (kept == kNone || kept != copy.out[0]) return false;
  copy.in[0] = kept;
  copy.in[1] = kNone;
  copy.out[0] = kNone;
  return true;
}

ValueId given_again(const Node& forward, const Node& backward) {
  return backward.op == &kRmsNormBackward && backward.in[3] == forward.out[2] ? forward.out[1] : kNone;
}

// in: dy, d_residual or none, h, rstd, weight -> dh, y again in place of dy; into: d_weight
std::vector<ValueType> infer_backward(const Graph& g, const Node& n) {
  const Value &dy = input(g, n, 0), &h = input(g, n, 2);
  check_input(dy.shape == h.shape && input(g, n, 3).shape == Shape{h.shape[0]}, g, n,
              "dy and h of one shape, and rstd [rows]");
  check_input(n.in[1] == kNone || input(g, n, 1).shape == h.shape, g, n, "a d_residual of h's shape");
  check_into(g, n, 0, {input(g, n, 4).shape, DType::f32});
  return {type_of(h), type_of(dy)};
}

template <auto launch>
Run prepare_backward(const BoundNode& b) {
  RmsNormBackward a;
  a.rows = b.in_value(0).shape[0];
  a.D = b.in_value(0).shape[1];
  a.dtype = b.in_value(0).dtype;
  a.dy = b.in[0];
  a.d_residual = b.in[1];
  a.h = b.in[2];
  a.rstd = as<float>(b.in[3]);
  a.weight = b.in[4];
  a.dh = b.out[0];
  a.y = b.out[1];
  a.d_weight = as<float>(b.into[0]);
  a.workspace = b.workspace;
  return call(launch, a);
}

template <auto workspace>
size_t workspace_backward(const Graph& g, const Node& n) {
  const Shape& s = input(g, n, 0).shape;
  return workspace(s[0], s[1]);
}

}  // namespace

const OpDef kRmsNorm{.name = "rmsnorm",
                     .text = text,
                     .infer = infer,
                     .grad = grad,
                     .cost = elementwise_cost<5>,
                     .cpu = {prepare<cpu::rmsnorm_forward>},
                     .cuda = {prepare<cuda::rmsnorm_forward>},
                     .replay_from = replay_from,
                     .given_again = given_again};
const OpDef kRmsNormBackward{
    .name = "rmsnorm_backward",
    .text = text,
    .infer = infer_backward,
    .cost = elementwise_cost<10, 2>,
    .cpu = {prepare_backward<cpu::rmsnorm_backward>, workspace_backward<cpu::rmsnorm_backward_workspace>},
    .cuda = {prepare_backward<cuda::rmsnorm_backward>, workspace_backward<cuda::rmsnorm_backward_workspace>},
    .in_place = 1};

}  // namespace genesis::ops
