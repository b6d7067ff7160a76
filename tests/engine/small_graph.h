// One layer of a model, small enough to read: what the engine's own tests work on.
#pragma once

#include "engine/build/builder.h"
#include "engine/passes/verify.h"
#include "kernels/common/error.h"
#include "optim/adamw.h"

namespace genesis {

struct SmallGraph {
  Graph graph;
  ValueId tokens, targets, positions, loss_and_count, embed;

  // Tied: the table of embeddings is the output layer too. `layers` executions of the one stored layer.
  explicit SmallGraph(int layers = 1, int64_t T = 4, DType dtype = DType::bf16) {
    Builder b(graph);
    constexpr int64_t kV = 16, kD = 8, kH = 2, kKV = 1, kK = 8, kF = 12;
    tokens = b.persistent("tokens", {T}, DType::i32, Role::input);
    targets = b.persistent("targets", {T}, DType::i32, Role::input);
    positions = b.persistent("positions", {T}, DType::i32, Role::input);
    loss_and_count = b.persistent("loss_and_count", {4}, DType::f32, Role::result);
    const auto weight = [&](const char* name, Shape shape) {
      return b.persistent(name, shape, dtype, Role::parameter);
    };
    embed = weight("embed.weight", {kV, kD});
    const ValueId attn_norm = weight("attn_norm.weight", {kD});
    const ValueId qkv = weight("attn.qkv.weight", {(kH + 2 * kKV) * kK, kD});
    const ValueId out = weight("attn.out.weight", {kD, kH * kK});
    const ValueId ffn_norm = weight("ffn_norm.weight", {kD});
    const ValueId gate_up = weight("ffn.gate_up.weight", {2 * kF, kD});
    const ValueId down = weight("ffn.down.weight", {kD, kF});
    const ValueId last_norm = weight("norm.weight", {kD});

    ValueId x = b.embedding("embed", tokens, embed), branch = kNone;
    for (int e = 0; e < layers; ++e) {
      b.scope("layers." + std::to_string(e) + ".", e);
      const auto [in, normed] = b.rmsnorm("attn_norm", x, branch, attn_norm, 1e-5f);
      const ValueId rotated =
          b.rope("attn.rope", b.linear("attn.qkv", normed, qkv), positions, {.H = kH, .KV = kKV, .K = kK});
      const ValueId mix =
          b.attention("attn.mix", rotated, positions, {.B = 1, .T = int(T), .H = kH, .KV = kKV, .K = kK});
      const auto [h, normed_h] = b.rmsnorm("ffn_norm", in, b.linear("attn.out", mix, out), ffn_norm, 1e-5f);
      const ValueId act = b.swiglu("ffn.act", b.linear("ffn.gate_up", normed_h, gate_up), 0);
      x = h;
      branch = b.linear("ffn.down", act, down);
    }
    b.scope("");
    const ValueId y = b.rmsnorm("norm", x, branch, last_norm, 1e-5f).y;
    b.head_loss(y, embed, targets, loss_and_count, {.chunk = 64});
    verify(graph);
  }

  Node& node(const OpDef& op) {
    for (Node& n : graph.nodes) {
      if (n.op == &op) return n;
    }
    throw Error("no such node");
  }
};

// The graph's parameters as an optimizer takes them: whole, and matrices decayed.
inline std::vector<TrainedParameter> all_trained(const Graph& graph) {
  std::vector<TrainedParameter> trained;
  for (ValueId id : graph.with_role(Role::parameter)) {
    trained.push_back({graph.value(id).name, graph.value(id).shape.rank() > 1});
  }
  return trained;
}

inline void append_adamw(SmallGraph& g) {
  append_optimizer(g.graph, g.loss_and_count, 1, AdamWOptimizer({}), all_trained(g.graph));
}

}  // namespace genesis
