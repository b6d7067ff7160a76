#include "engine/ops/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/ops/helpers.h"
#include "engine/passes/differentiate.h"
#include "kernels/attention/attention.h"

namespace genesis::ops {
namespace {

std::string text(const Node& n) {
  const auto& a = attrs_of<AttentionAttrs>(n);
  return fmt::format("B={} T={} H={} KV={} K={}{}", a.B, a.T, a.H, a.KV, a.K,
                     a.document_mask ? " document_mask" : "");
}

AttentionShape shape_of(const AttentionAttrs& a, DType dtype) {
  return {a.B, a.T, a.H, a.KV, a.K, dtype, 1.f / std::sqrt(float(a.K))};
}

AttentionShape shape_of(const Graph& g, const Node& n) {
  return shape_of(attrs_of<AttentionAttrs>(n), input(g, n, 0).dtype);
}

void check_qkv(const Graph& g, const Node& n) {
  const auto& a = attrs_of<AttentionAttrs>(n);
  check_input(a.KV > 0 && a.H % a.KV == 0 && a.K % 8 == 0 && a.K <= 256, g, n,
              "H a multiple of KV and K a multiple of 8 up to 256");
  check_input(input(g, n, 0).shape == Shape{int64_t(a.B) * a.T, int64_t(a.H + 2 * a.KV) * a.K}, g, n,
              "qkv [B T, (H + 2 KV) K]");
}

// Positions, i32 [B T], are there if and only if attention stays inside documents.
void check_positions(const Graph& g, const Node& n) {
  const auto& a = attrs_of<AttentionAttrs>(n);
  const bool fit = a.document_mask ? input(g, n, 1).dtype == DType::i32 &&
                                         input(g, n, 1).shape.elements() == int64_t(a.B) * a.T
                                   : n.in[1] == kNone;
  check_input(fit, g, n, "a position i32 a row with a document mask, none without");
}

// in: qkv, positions or none -> out [B T, H K], lse [B, H, T]
std::vector<ValueType> infer(const Graph& g, const Node& n) {
  check_qkv(g, n);
  check_positions(g, n);
  const auto& a = attrs_of<AttentionAttrs>(n);
  return {{{int64_t(a.B) * a.T, int64_t(a.H) * a.K}, input(g, n, 0).dtype}, {{a.B, a.H, a.T}, DType::f32}};
}

void grad(Differentiator& d, NodeId id) {
  const Node n = d.node(id);
  d.contribute(n.in[0],
               d.append(id, kAttentionBackward, n.attrs,
                        {n.in[0], n.in[1], n.out[0], n.out[1], d.grad(n.out[0])}, {d.grad_name(n.in[0])})[0]);
}

template <auto launch>
Run prepare(const BoundNode& b) {
  AttentionForward a;
  a.shape = shape_of(b.graph, b.node);
  a.qkv = b.in[0];
  a.positions = as<int32_t>(b.in[1]);
  a.out = b.out[0];
  a.lse = as<float>(b.out[1]);
  a.workspace = b.workspace;
  return call(launch, a);
}

template <auto bytes>
size_t workspace(const Graph& g, const Node& n) {
  return bytes(shape_of(g, n));
}

// Two products of T x T x K a head, of which causality leaves half.
Cost cost(const Graph& g, const Node& n) {
  const auto& a = attrs_of<AttentionAttrs>(n);
  return {2. * double(a.B) * a.H * double(a.T) * a.T * a.K, bytes_touched(g, n)};
}

// in: qkv, positions or none, out, lse, d_out -> d_qkv
std::vector<ValueType> infer_backward(const Graph& g, const Node& n) {
  check_qkv(g, n);
  check_positions(g, n);
  const auto& a = attrs_of<AttentionAttrs>(n);
  const Shape mix{int64_t(a.B) * a.T, int64_t(a.H) * a.K};
  check_input(input(g, n, 2).shape == mix && input(g, n, 4).shape == mix, g, n, "out and d_out [B T, H K]");
  check_input(input(g, n, 3).shape == Shape{a.B, a.H, a.T}, g, n, "lse [B, H, T]");
  return {type_of(input(g, n, 0))};
}

template <auto launch>
Run prepare_backward(const BoundNode& b) {
  AttentionBackward a;
  a.shape = shape_of(b.graph, b.node);
  a.qkv = b.in[0];
  a.positions = as<int32_t>(b.in[1]);
  a.out = b.in[2];
  a.lse = as<float>(b.in[3]);
  a.d_out = b.in[4];
  a.d_qkv = b.out[0];
  a.workspace = b.workspace;
  return call(launch, a);
}

// Five products instead of two. What the queries' gradient reads, the keys' and values' read again: qkv,
// d_out and lse.
Cost cost_backward(const Graph& g, const Node& n) {
  const Cost once = cost(g, n);
  double again = 0;
  for (const size_t i : {0, 3, 4}) again += double(input(g, n, i).bytes());
  // Five products for the forward's two, of which the scores are the forward's own.
  return {2.5 * once.flops, once.bytes + again, 0, 0.5 * once.flops};
}

// in: qkv [n, (H + 2 KV) K], first [1]; into: k_cache, v_cache [T_max, KV, K] -> out [n, H K]. attrs.T is n.
std::vector<ValueType> infer_cached(const Graph& g, const Node& n) {
  check_qkv(g, n);
  const auto& a = attrs_of<AttentionAttrs>(n);
  check_input(a.B == 1 && n.into.size() == 2, g, n, "one sequence, and a cache of keys and one of values");
  const int64_t T_max = g.value(n.into[0]).shape[0];
  for (size_t i : {0, 1}) check_into(g, n, i, {{T_max, a.KV, a.K}, input(g, n, 0).dtype});
  return {{{int64_t(a.T), int64_t(a.H) * a.K}, input(g, n, 0).dtype}};
}

template <auto launch>
Run prepare_cached(const BoundNode& b) {
  const auto& attrs = b.attrs<AttentionAttrs>();
  AttentionCached a;
  a.n = attrs.T;
  a.T_max = b.into_value(0).shape[0];
  a.H = attrs.H;
  a.KV = attrs.KV;
  a.K = attrs.K;
  a.dtype = b.in_value(0).dtype;
  a.scale = 1.f / std::sqrt(float(attrs.K));
  a.first = as<int32_t>(b.in[1]);
  a.qkv = b.in[0];
  a.k_cache = b.into[0];
  a.v_cache = b.into[1];
  a.out = b.out[0];
  return call(launch, a);
}

Cost cost_cached(const Graph& g, const Node& n) {
  const auto& a = attrs_of<AttentionAttrs>(n);
  return {4. * a.T * a.H * a.K * double(g.value(n.into[0]).shape[0]), bytes_touched(g, n)};
}

}  // namespace

const OpDef kAttention{
    .name = "attention",
    .text = text,
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .cpu = {prepare<cpu::attention_forward>, workspace<cpu::attention_forward_workspace>},
    .cuda = {prepare<cuda::attention_forward>, workspace<cuda::attention_forward_workspace>}};
const OpDef kAttentionBackward{
    .name = "attention_backward",
    .text = text,
    .infer = infer_backward,
    .cost = cost_backward,
    .cpu = {prepare_backward<cpu::attention_backward>, workspace<cpu::attention_backward_workspace>},
    .cuda = {prepare_backward<cuda::attention_backward>, workspace<cuda::attention_backward_workspace>}};
const OpDef kAttentionCached{.name = "attention_cached",
                             .text = text,
                             .infer = infer_cached,
                             .cost = cost_cached,
                             .cpu = {prepare_cached<cpu::attention_cached>},
                             .cuda = {prepare_cached<cuda::attention_cached>}};

}  // namespace genesis::ops
