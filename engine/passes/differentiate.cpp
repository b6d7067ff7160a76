#include "engine/passes/differentiate.h"

#include "engine/graph/builder.h"
#include "engine/ops/op.h"
#include "kernels/common/error.h"

namespace genesis {

bool Differentiator::wanted(ValueId v) const {
  if (v == kNone) return false;
  const Role role = graph_.value(v).role;
  return role == Role::activation || role == Role::parameter;
}

std::string Differentiator::grad_name(ValueId v) {
  const std::string base = "d." + graph_.value(v).name;
  std::string name = base;
  for (int i = 1; graph_.find(name) != kNone; ++i) name = base + "." + std::to_string(i);
  return name;
}

void Differentiator::contribute(ValueId v, ValueId dv) {
  ValueId& sum = grads_[size_t(v)];
  if (sum == kNone) {
    sum = dv;
    return;
  }
  sum = Builder(graph_).add(grad_name(v), sum, dv);
  graph_.nodes.back().backward = true;
}

ValueId Differentiator::gradient_buffer(ValueId parameter) {
  const Value& p = graph_.value(parameter);
  require(p.role == Role::parameter, "only parameters have gradient buffers");
  const std::string name = "d." + p.name;
  const ValueId found = graph_.find(name);
  if (found != kNone) return found;
  return graph_.add_value({name, p.shape, DType::f32, Role::gradient, kNone});
}

std::vector<ValueId> Differentiator::append(NodeId of, const OpDef& op, std::any attrs,
                                            std::vector<ValueId> in, std::vector<std::string> out_names,
                                            std::vector<ValueId> into) {
  Node node;
  node.op = &op;
  node.attrs = std::move(attrs);
  node.in = std::move(in);
  node.into = std::move(into);
  node.backward = true;
  node.execution = graph_.nodes[size_t(of)].execution;
  const NodeId id = append_node(graph_, std::move(node), out_names);
  return graph_.nodes[size_t(id)].out;
}

void differentiate(Graph& graph) {
  Differentiator d(graph);
  bool has_loss = false;
  for (NodeId id = NodeId(graph.nodes.size()) - 1; id >= 0; --id) {
    const Node node = d.node(id);
    const OpDef& def = *node.op;
    bool reached = def.loss;
    has_loss |= reached;
    for (ValueId out : node.out) reached |= out != kNone && d.grad(out) != kNone;
    if (!reached) continue;
    check(def.grad != nullptr, std::string("differentiate: the op '") + def.name + "' has no gradient");
    def.grad(d, id);
  }
  check(has_loss, "differentiate: the graph has no loss");
  verify(graph);
}

}  // namespace genesis
