#include "engine/ops/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/differentiator.h"
#include "engine/ops/helpers.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_tiling.h"

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

// The model's two products of T x T x K a head, of which causality leaves half.
double model_flops(const AttentionAttrs& a) { return 2. * double(a.B) * a.H * double(a.T) * a.T * a.K; }

// What the kernels multiply. The plain ones, for what has no tensor cores, leave out what the mask does.
cuda::AttentionFlops kernel_flops(const AttentionShape& s) {
  if (cuda::for_tensor_cores(s)) return cuda::attention_flops(s);
  const double a_product = double(s.B * s.H) * double(s.T) * double(s.T + 1) * double(s.K);
  return {2 * a_product, 3 * a_product, 4 * a_product};
}

Unit unit_of(const AttentionShape& s) { return cuda::for_tensor_cores(s) ? Unit::mma : Unit::fma; }

Cost cost(const Graph& g, const Node& n) {
  const AttentionShape s = shape_of(g, n);
  return {.flops = model_flops(attrs_of<AttentionAttrs>(n)),
          .kernels = {{n.op->name, unit_of(s), kernel_flops(s).forward, bytes_touched(g, n)}}};
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

// Of the model four products for the forward's two. The kernels make seven: the scores and the gradients of
// the probabilities are computed again, by each of the two.
Cost cost_backward(const Graph& g, const Node& n) {
  const AttentionShape s = shape_of(g, n);
  const cuda::AttentionFlops flops = kernel_flops(s);
  const auto bytes = [&](size_t i) { return n.in[i] == kNone ? 0. : double(input(g, n, i).bytes()); };
  const double keys = double(cuda::key_value_elements(s)) * double(size_of(s.dtype));
  const double statistics = 2 * bytes(3), read_by_both = bytes(0) + bytes(1) + bytes(4);
  const auto parts = cuda::for_tensor_cores(s) ? double(cuda::parts_bytes(s)) : 0.;

  Cost cost{.flops = 2 * model_flops(attrs_of<AttentionAttrs>(n))};
  cost.kernels = {{.name = "attention_backward, dq",
                   .unit = unit_of(s),
                   .flops = flops.dq,
                   .bytes = read_by_both + bytes(2) + bytes(3) + statistics + bytes(2)},
                  {.name = "attention_backward, dk dv",
                   .unit = unit_of(s),
                   .flops = flops.dkv,
                   .bytes = read_by_both + statistics + (parts > 0 ? parts : keys)}};
  if (parts > 0) cost.kernels.push_back({.name = "attention_backward, sum", .bytes = parts + keys});
  return cost;
}

// in: qkv [n, (H + 2 KV) K], slots [n], positions [n]; into: k_cache, v_cache [slots, T_max, KV, K] -> out [n, H K].
// attrs.T is n.
std::vector<ValueType> infer_cached(const Graph& g, const Node& n) {
  check_qkv(g, n);
  const auto& a = attrs_of<AttentionAttrs>(n);
  check_input(a.B == 1 && n.into.size() == 2, g, n, "rows of tokens, and a cache of keys and one of values");
  for (size_t i : {1, 2}) {
    check_input(input(g, n, i).dtype == DType::i32 && input(g, n, i).shape == Shape{a.T}, g, n,
                "a slot and a position i32 a row");
  }
  const Shape& cache = g.value(n.into[0]).shape;
  for (size_t i : {0, 1}) check_into(g, n, i, {{cache[0], cache[1], a.KV, a.K}, input(g, n, 0).dtype});
  return {{{int64_t(a.T), int64_t(a.H) * a.K}, input(g, n, 0).dtype}};
}

template <auto launch>
Run prepare_cached(const BoundNode& b) {
  const auto& attrs = b.attrs<AttentionAttrs>();
  AttentionCached a;
  a.n = attrs.T;
  a.slots = b.into_value(0).shape[0];
  a.T_max = b.into_value(0).shape[1];
  a.H = attrs.H;
  a.KV = attrs.KV;
  a.K = attrs.K;
  a.dtype = b.in_value(0).dtype;
  a.scale = 1.f / std::sqrt(float(attrs.K));
  a.slot = as<int32_t>(b.in[1]);
  a.positions = as<int32_t>(b.in[2]);
  a.qkv = b.in[0];
  a.k_cache = b.into[0];
  a.v_cache = b.into[1];
  a.out = b.out[0];
  return call(launch, a);
}

Cost cost_cached(const Graph& g, const Node& n) {
  const auto& a = attrs_of<AttentionAttrs>(n);
  constexpr double kLaunches = 2;  // the cache grows, and is read
  const Shape& cache = g.value(n.into[0]).shape;
  // At most, that is, of full slots: each token's sequence is read, and each sequence once.
  double bytes =
      2 * double(g.value(n.into[0]).bytes()) * double(std::min<int64_t>(a.T, cache[0])) / double(cache[0]);
  for (const ValueId id : n.in) bytes += double(g.value(id).bytes());
  return one_kernel(n, Unit::fma, 4. * a.T * a.H * a.K * double(cache[1]),
                    bytes + double(g.value(n.out[0]).bytes()), kLaunches);
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
