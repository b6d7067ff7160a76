#include "engine/ops/qk_norm.h"

#include <fmt/format.h>

#include "engine/ops/differentiator.h"
#include "engine/ops/helpers.h"
#include "kernels/qk_norm/qk_norm.h"

namespace genesis::ops {
namespace {

std::string text(const Node& n) {
  const auto& a = attrs_of<QkNormAttrs>(n);
  return fmt::format("H={} KV={} K={} theta={:g}{} eps={:g}", a.rotation.H, a.rotation.KV, a.rotation.K,
                     a.rotation.theta, a.rotation.interleaved ? " interleaved" : "", a.eps);
}

QkNormShape shape_of(const Graph& g, const Node& n) {
  const auto& a = attrs_of<QkNormAttrs>(n);
  const Value& qkv = input(g, n, 0);
  return {.rows = qkv.shape[0],
          .H = a.rotation.H,
          .KV = a.rotation.KV,
          .K = a.rotation.K,
          .dtype = qkv.dtype,
          .interleaved = a.rotation.interleaved,
          .theta = a.rotation.theta,
          .eps = a.eps};
}

void check_inputs(const Graph& g, const Node& n) {
  const auto& a = attrs_of<QkNormAttrs>(n).rotation;
  const Value &qkv = input(g, n, 0), &positions = input(g, n, 1);
  check_input(qkv.shape.rank() == 2 && qkv.shape[1] == int64_t(a.H + 2 * a.KV) * a.K, g, n,
              "qkv [rows, (H + 2 KV) K]");
  check_input(positions.dtype == DType::i32 && positions.shape.elements() == qkv.shape[0], g, n,
              "a position i32 a row");
  for (const size_t weight : {2, 3}) {
    const Value& w = input(g, n, weight);
    check_input(w.shape == Shape{int64_t(a.K)} && w.dtype == qkv.dtype, g, n,
                "a weight [K] of the queries and one of the keys");
  }
}

// in: qkv [rows, (H + 2 KV) K], positions [rows], the queries' weight [K], the keys' -> rotated
std::vector<ValueType> infer(const Graph& g, const Node& n) {
  check_inputs(g, n);
  return {type_of(input(g, n, 0))};
}

void grad(Differentiator& d, NodeId id) {
  const Node n = d.node(id);
  const ValueId d_qkv =
      d.append(id, kQkNormBackward, n.attrs, {d.grad(n.out[0]), n.in[1], n.in[2], n.in[3], n.in[0]},
               {d.grad_name(n.in[0])}, {d.gradient_buffer(n.in[2]), d.gradient_buffer(n.in[3])})[0];
  d.contribute(n.in[0], d_qkv);
}

template <auto launch>
Run prepare(const BoundNode& b) {
  QkNormForward a;
  a.shape = shape_of(b.graph, b.node);
  a.qkv = b.in[0];
  a.positions = as<int32_t>(b.in[1]);
  a.q_weight = b.in[2];
  a.k_weight = b.in[3];
  a.rotated = b.out[0];
  return call(launch, a);
}

Cost cost(const Graph& g, const Node& n) {
  return one_kernel(n, Unit::fma, 7 * double(input(g, n, 0).shape.elements()), bytes_touched(g, n));
}

// in: d_rotated, positions, the queries' weight, the keys', qkv -> d_qkv in place; into: the weights' gradients
std::vector<ValueType> infer_backward(const Graph& g, const Node& n) {
  check_inputs(g, n);
  check_input(input(g, n, 4).shape == input(g, n, 0).shape, g, n, "d_rotated and qkv of one shape");
  for (const size_t i : {0, 1}) check_into(g, n, i, {input(g, n, 2 + i).shape, DType::f32});
  return {type_of(input(g, n, 0))};
}

template <auto launch>
Run prepare_backward(const BoundNode& b) {
  QkNormBackward a;
  a.shape = shape_of(b.graph, b.node);
  a.positions = as<int32_t>(b.in[1]);
  a.q_weight = b.in[2];
  a.k_weight = b.in[3];
  a.qkv = b.in[4];
  a.d_qkv = b.out[0];
  a.d_q_weight = as<float>(b.into[0]);
  a.d_k_weight = as<float>(b.into[1]);
  a.workspace = b.workspace;
  return call(launch, a);
}

template <auto workspace>
size_t workspace_backward(const Graph& g, const Node& n) {
  const QkNormShape s = shape_of(g, n);
  return workspace(s.rows, s.K);
}

// The values' part is left alone. Two launches add up the weights' gradients.
Cost cost_backward(const Graph& g, const Node& n) {
  const QkNormShape s = shape_of(g, n);
  const double heads = double(s.rows * (s.H + s.KV) * s.K), weights = 2 * double(s.K);
  const auto size = double(size_of(s.dtype));
  return one_kernel(n, Unit::fma, 17 * heads,
                    3 * size * heads + double(input(g, n, 1).bytes()) + (size + 8) * weights, 3);
}

}  // namespace

const OpDef kQkNorm{.name = "qk_norm",
                    .text = text,
                    .infer = infer,
                    .grad = grad,
                    .cost = cost,
                    .cpu = {prepare<cpu::qk_norm_forward>},
                    .cuda = {prepare<cuda::qk_norm_forward>}};
const OpDef kQkNormBackward{
    .name = "qk_norm_backward",
    .text = text,
    .infer = infer_backward,
    .cost = cost_backward,
    .cpu = {prepare_backward<cpu::qk_norm_backward>, workspace_backward<cpu::qk_norm_backward_workspace>},
    .cuda = {prepare_backward<cuda::qk_norm_backward>, workspace_backward<cuda::qk_norm_backward_workspace>},
    .in_place = 0};

}  // namespace genesis::ops
