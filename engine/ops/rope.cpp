#include "engine/ops/rope.h"

#include <fmt/format.h>

#include "engine/ops/differentiator.h"
#include "engine/ops/helpers.h"
#include "kernels/rope/rope.h"

namespace genesis::ops {
namespace {

std::string text(const Node& n) {
  const auto& a = attrs_of<RopeAttrs>(n);
  return fmt::format("H={} KV={} K={} theta={:g}{}{}", a.H, a.KV, a.K, a.theta,
                     a.interleaved ? " interleaved" : "", a.inverse ? " inverse" : "");
}

// in: qkv [rows, (H + 2 KV) K], positions [rows] -> qkv in place
std::vector<ValueType> infer(const Graph& g, const Node& n) {
  const auto& a = attrs_of<RopeAttrs>(n);
  const Value &qkv = input(g, n, 0), &positions = input(g, n, 1);
  check_input(qkv.shape.rank() == 2 && qkv.shape[1] == int64_t(a.H + 2 * a.KV) * a.K, g, n,
              "qkv [rows, (H + 2 KV) K]");
  check_input(positions.dtype == DType::i32 && positions.shape.elements() == qkv.shape[0], g, n,
              "a position i32 a row");
  return {type_of(qkv)};
}

void grad(Differentiator& d, NodeId id) {
  const Node n = d.node(id);
  auto attrs = attrs_of<RopeAttrs>(n);
  attrs.inverse = !attrs.inverse;
  d.contribute(n.in[0], d.append(id, kRope, attrs, {d.grad(n.out[0]), n.in[1]}, {d.grad_name(n.in[0])})[0]);
}

template <auto launch>
Run prepare(const BoundNode& b) {
  const auto& attrs = b.attrs<RopeAttrs>();
  Rope a;
  a.rows = b.in_value(0).shape[0];
  a.H = attrs.H;
  a.KV = attrs.KV;
  a.K = attrs.K;
  a.dtype = b.in_value(0).dtype;
  a.interleaved = attrs.interleaved;
  a.inverse = attrs.inverse;
  a.theta = attrs.theta;
  a.positions = as<int32_t>(b.in[1]);
  a.qkv = b.out[0];
  return call(launch, a);
}

// The values are left alone.
Cost cost(const Graph& g, const Node& n) {
  const auto& a = attrs_of<RopeAttrs>(n);
  const Value &qkv = input(g, n, 0), &positions = input(g, n, 1);
  const double part = double(a.H + a.KV) / double(a.H + 2 * a.KV);
  return one_kernel(n, Unit::fma, 3 * part * double(qkv.shape.elements()),
                    2 * part * double(qkv.bytes()) + double(positions.bytes()));
}

}  // namespace

const OpDef kRope{.name = "rope",
                  .text = text,
                  .infer = infer,
                  .grad = grad,
                  .cost = cost,
                  .cpu = {prepare<cpu::rope>},
                  .cuda = {prepare<cuda::rope>},
                  .in_place = 0};

}  // namespace genesis::ops
