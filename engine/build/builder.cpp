#include "engine/build/builder.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"
#include "engine/ops/matmul.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/swiglu.h"

namespace genesis {

ValueId Builder::persistent(const std::string& name, Shape shape, DType dtype, Role role) {
  return graph_.add_value({name, shape, dtype, role, kNone});
}

NodeId Builder::append(const OpDef& op, std::any attrs, std::vector<ValueId> in,
                       std::vector<std::string> out_names, std::vector<ValueId> into) {
  Node node;
  node.op = &op;
  node.attrs = std::move(attrs);
  node.in = std::move(in);
  node.into = std::move(into);
  node.phase = phase_;
  node.execution = execution_;
  for (std::string& name : out_names) {
    if (!name.empty()) name = prefix_ + name;
  }
  return append_node(graph_, std::move(node), out_names);
}

ValueId Builder::embedding(const std::string& name, ValueId tokens, ValueId table) {
  return graph_.nodes[size_t(append(ops::kEmbedding, {}, {tokens, table}, {name}))].out[0];
}

Builder::Norm Builder::rmsnorm(const std::string& name, ValueId x, ValueId residual, ValueId weight,
                               float eps) {
  const std::string h_name = residual == kNone ? "" : name + ".h";
  const NodeId n =
      append(ops::kRmsNorm, NormAttrs{eps}, {x, residual, weight}, {h_name, name, name + ".rstd"});
  const Node& node = graph_.nodes[size_t(n)];
  return {residual == kNone ? x : node.out[0], node.out[1]};
}

ValueId Builder::linear(const std::string& name, ValueId x, ValueId weight) {
  const MatMulAttrs attrs{.transpose_b = true};
  return graph_.nodes[size_t(append(ops::kMatMul, attrs, {x, weight}, {name}))].out[0];
}

ValueId Builder::rope(const std::string& name, ValueId qkv, ValueId positions, const RopeAttrs& attrs) {
  return graph_.nodes[size_t(append(ops::kRope, attrs, {qkv, positions}, {name}))].out[0];
}

ValueId Builder::qk_norm(const std::string& name, ValueId qkv, ValueId positions, ValueId q_weight,
                         ValueId k_weight, const QkNormAttrs& attrs) {
  const NodeId n = append(ops::kQkNorm, attrs, {qkv, positions, q_weight, k_weight}, {name});
  return graph_.nodes[size_t(n)].out[0];
}

ValueId Builder::attention(const std::string& name, ValueId qkv, ValueId positions,
                           const AttentionAttrs& attrs) {
  const NodeId n =
      append(ops::kAttention, attrs, {qkv, attrs.document_mask ? positions : kNone}, {name, name + ".lse"});
  return graph_.nodes[size_t(n)].out[0];
}

ValueId Builder::attention_cached(const std::string& name, ValueId qkv, ValueId slots, ValueId positions,
                                  ValueId k_cache, ValueId v_cache, const AttentionAttrs& attrs) {
  const NodeId n = append(ops::kAttentionCached, attrs, {qkv, slots, positions}, {name}, {k_cache, v_cache});
  return graph_.nodes[size_t(n)].out[0];
}

ValueId Builder::swiglu(const std::string& name, ValueId gate_up, float clamp) {
  return graph_.nodes[size_t(append(ops::kSwiGlu, SwiGluAttrs{clamp}, {gate_up}, {name}))].out[0];
}

void Builder::head_loss(ValueId x, ValueId weight, ValueId targets, ValueId loss_and_count,
                        const HeadLossAttrs& attrs) {
  append(ops::kHeadLoss, attrs, {x, weight, targets}, {}, {loss_and_count});
}

ValueId Builder::add(const std::string& name, ValueId a, ValueId b) {
  return graph_.nodes[size_t(append(ops::kAdd, {}, {a, b}, {name}))].out[0];
}

}  // namespace genesis
