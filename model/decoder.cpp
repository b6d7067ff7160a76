#include "model/decoder.h"

#include <functional>

#include "engine/build/builder.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/matmul.h"
#include "engine/passes/verify.h"
#include "model/executions.h"
#include "model/parameters.h"

namespace genesis {
namespace {

struct LayerWeights {
  ValueId attn_norm, qkv, q_norm, k_norm, out, ffn_norm, gate_up,
      down;  // kNone: without a norm of queries and keys
};

struct Weights {
  ValueId embed, norm, head;
  std::vector<LayerWeights> layers;
};

Weights declare_weights(Builder& b, const Config::Model& m, DType dtype) {
  for (const Parameter& p : parameters(m)) b.persistent(p.name, p.shape, dtype, Role::parameter);
  const auto weight = [&](const std::string& name) { return b.graph().at(name + ".weight"); };
  Weights w;
  w.embed = weight("embed");
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string p = "layers." + std::to_string(i) + ".";
    w.layers.push_back({weight(p + "attn_norm"), weight(p + "attn.qkv"),
                        m.qk_norm ? weight(p + "attn.q_norm") : kNone,
                        m.qk_norm ? weight(p + "attn.k_norm") : kNone, weight(p + "attn.out"),
                        weight(p + "ffn_norm"), weight(p + "ffn.gate_up"), weight(p + "ffn.down")});
  }
  w.norm = weight("norm");
  w.head = m.tie_embeddings ? w.embed : weight("head");
  return w;
}

// The residual stream between blocks: x + branch, the sum left to the next norm, which does it on its way.
struct Residual {
  ValueId x, branch;
};

// How a block's queries, keys and values become its mix of values: over a whole batch, or against a cache.
using Attend = std::function<ValueId(Builder&, ValueId qkv)>;

Residual decoder_block(Builder& b, const Config::Model& m, const LayerWeights& w, Residual in,
                       ValueId positions, const Attend& attend) {
  const RopeAttrs rotation{int(m.heads),        int(m.kv_heads),    int(m.head_size),
                           float(m.rope_theta), m.rope_interleaved, false};
  const float eps = float(m.norm_eps);

  const auto [x, normed_x] = b.rmsnorm("attn_norm", in.x, in.branch, w.attn_norm, eps);
  const ValueId qkv = b.linear("attn.qkv", normed_x, w.qkv);
  const ValueId rotated = m.qk_norm
                              ? b.qk_norm("attn.rope", qkv, positions, w.q_norm, w.k_norm, {rotation, eps})
                              : b.rope("attn.rope", qkv, positions, rotation);
  const ValueId mixed = b.linear("attn.out", attend(b, rotated), w.out);

  const auto [h, normed_h] = b.rmsnorm("ffn_norm", x, mixed, w.ffn_norm, eps);
  const ValueId gate_up = b.linear("ffn.gate_up", normed_h, w.gate_up);
  return {h, b.linear("ffn.down", b.swiglu("ffn.act", gate_up, float(m.swiglu_clamp)), w.down)};
}

// Embedding, all executions, final norm. attend is told which execution it works for.
ValueId decoder(Builder& b, const Config::Model& m, const Weights& w, int64_t recurrence, ValueId tokens,
                ValueId positions, const std::function<Attend(int execution)>& attend) {
  b.scope("");
  Residual stream{b.embedding("embed", tokens, w.embed), kNone};
  const auto list = executions(m, recurrence);
  for (int e = 0; e < int(list.size()); ++e) {
    b.scope(list[size_t(e)].name + ".", e);
    stream = decoder_block(b, m, w.layers[size_t(list[size_t(e)].layer)], stream, positions, attend(e));
  }
  b.scope("");
  return b.rmsnorm("norm", stream.x, stream.branch, w.norm, float(m.norm_eps)).y;
}

AttentionAttrs attention_attrs(const Config::Model& m, int64_t B, int64_t T, bool document_mask) {
  return {int(B), int(T), int(m.heads), int(m.kv_heads), int(m.head_size), document_mask};
}

// The logits of n rows, as a result.
void append_head(Builder& b, ValueId x, const Weights& w, int64_t n) {
  const NodeId head = b.append(ops::kMatMul, MatMulAttrs{.transpose_b = true, .f32_out = true}, {x, w.head},
                               {for_count(kLogits, n)});
  b.graph().value(b.graph().nodes[size_t(head)].out[0]).role = Role::result;
}

}  // namespace

Graph build_loss_graph(const Config::Model& m, const BatchShape& batch, DType dtype, int64_t recurrence) {
  Graph graph;
  Builder b(graph);
  const Shape rows{batch.B * batch.T};
  const ValueId tokens = b.persistent(kTokens, rows, DType::i32, Role::input);
  const ValueId targets = b.persistent(kTargets, rows, DType::i32, Role::input);
  const ValueId positions = b.persistent(kPositions, rows, DType::i32, Role::input);
  const ValueId loss_and_count = b.persistent(kLossAndCount, {kLossSumFloats}, DType::f32, Role::result);
  const Weights w = declare_weights(b, m, dtype);
  Builder(graph, Phase::begin).append(ops::kZero, {}, {}, {}, {loss_and_count});

  const AttentionAttrs attrs = attention_attrs(m, batch.B, batch.T, batch.document_mask);
  const Attend attend = [&](Builder& builder, ValueId qkv) {
    return builder.attention("attn.mix", qkv, positions, attrs);
  };
  const ValueId x = decoder(b, m, w, recurrence, tokens, positions, [&](int) { return attend; });
  b.head_loss(x, w.head, targets, loss_and_count, {.z_loss = float(m.z_loss)});
  verify(graph);
  return graph;
}

Graph build_generation_graph(const Config::Model& m, int64_t n, const CacheShape& cache, DType dtype,
                             int64_t recurrence) {
  Graph graph;
  Builder b(graph);
  const ValueId tokens = b.persistent(for_count(kTokens, n), {n}, DType::i32, Role::input);
  const ValueId positions = b.persistent(for_count(kPositions, n), {n}, DType::i32, Role::input);
  const ValueId slots = b.persistent(for_count(kSlots, n), {n}, DType::i32, Role::input);
  const Weights w = declare_weights(b, m, dtype);

  const AttentionAttrs attrs = attention_attrs(m, 1, n, false);
  const auto attend = [&](int execution) -> Attend {
    const std::string name = "cache." + std::to_string(execution);
    const Shape shape{cache.slots, cache.T_max, m.kv_heads, m.head_size};
    const ValueId k = b.persistent(name + ".k", shape, dtype, Role::cache);
    const ValueId v = b.persistent(name + ".v", shape, dtype, Role::cache);
    return [=](Builder& builder, ValueId qkv) {
      return builder.attention_cached("attn.mix", qkv, slots, positions, k, v, attrs);
    };
  };
  append_head(b, decoder(b, m, w, recurrence, tokens, positions, attend), w, n);
  verify(graph);
  return graph;
}

Graph build_hidden_graph(const Config::Model& m, int64_t B, int64_t T, DType dtype, int64_t recurrence) {
  Graph graph;
  Builder b(graph);
  const ValueId tokens = b.persistent(kTokens, {B * T}, DType::i32, Role::input);
  const ValueId positions = b.persistent(kPositions, {B * T}, DType::i32, Role::input);
  const Weights w = declare_weights(b, m, dtype);
  const AttentionAttrs attrs = attention_attrs(m, B, T, true);
  const Attend attend = [&](Builder& builder, ValueId qkv) {
    return builder.attention("attn.mix", qkv, positions, attrs);
  };
  const ValueId x = decoder(b, m, w, recurrence, tokens, positions, [&](int) { return attend; });
  graph.value(x).name = kHidden;
  graph.value(x).role = Role::result;
  verify(graph);
  return graph;
}

Graph build_head_graph(const Config::Model& m, int64_t n, DType dtype) {
  Graph graph;
  Builder b(graph);
  const ValueId rows = b.persistent(for_count(kHeadRows, n), {n, m.hidden_size}, dtype, Role::input);
  append_head(b, rows, declare_weights(b, m, dtype), n);
  verify(graph);
  return graph;
}

std::string for_count(const char* name, int64_t n) { return std::string(name) + "." + std::to_string(n); }

}  // namespace genesis
