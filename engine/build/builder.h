// Appends nodes to a graph by op, with inferred outputs: what a model definition is written with.
#pragma once

#include <string>

#include "engine/graph/graph.h"
#include "engine/ops/attention.h"
#include "engine/ops/head_loss.h"
#include "engine/ops/qk_norm.h"
#include "engine/ops/rope.h"

namespace genesis {

class Builder {
 public:
  explicit Builder(Graph& graph, Phase phase = Phase::micro) : graph_(graph), phase_(phase) {}

  Graph& graph() { return graph_; }

  // Names of values that follow start with this; nodes that follow belong to this execution.
  void scope(std::string prefix, int execution = kNone) {
    prefix_ = std::move(prefix);
    execution_ = execution;
  }

  ValueId persistent(const std::string& name, Shape shape, DType dtype, Role role);

  // y = table[tokens]
  ValueId embedding(const std::string& name, ValueId tokens, ValueId table);
  struct Norm {
    ValueId h, y;
  };
  // h = x + residual, y = rmsnorm(h) * weight. Without a residual (kNone) h is x.
  Norm rmsnorm(const std::string& name, ValueId x, ValueId residual, ValueId weight, float eps);
  // y = x weight^T, weight [out, in]
  ValueId linear(const std::string& name, ValueId x, ValueId weight);
  // Rotates queries and keys in place.
  ValueId rope(const std::string& name, ValueId qkv, ValueId positions, const RopeAttrs& attrs);
  // Normalises queries and keys, each by its weight, and rotates them.
  ValueId qk_norm(const std::string& name, ValueId qkv, ValueId positions, ValueId q_weight, ValueId k_weight,
                  const QkNormAttrs& attrs);
  ValueId attention(const std::string& name, ValueId qkv, ValueId positions, const AttentionAttrs& attrs);
  // Appends each row to its slot of the cache, at its position, and attends to all of the slot up to there.
  ValueId attention_cached(const std::string& name, ValueId qkv, ValueId slots, ValueId positions,
                           ValueId k_cache, ValueId v_cache, const AttentionAttrs& attrs);
  ValueId swiglu(const std::string& name, ValueId gate_up, float clamp);
  // Adds the cross-entropy of x weight^T against the targets, and the number of valid targets, to
  // loss_and_count.
  void head_loss(ValueId x, ValueId weight, ValueId targets, ValueId loss_and_count,
                 const HeadLossAttrs& attrs);

  ValueId add(const std::string& name, ValueId a, ValueId b);

  // Appends a node; its outputs get the names (prefix applied; an empty name: the output is not wanted).
  NodeId append(const OpDef& op, std::any attrs, std::vector<ValueId> in, std::vector<std::string> out_names,
                std::vector<ValueId> into = {});

 private:
  Graph& graph_;
  Phase phase_;
  std::string prefix_;
  int execution_ = kNone;
};

}  // namespace genesis
