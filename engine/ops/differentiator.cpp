#include "engine/ops/differentiator.h"

#include "engine/ops/elementwise.h"
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
  Node add;
  add.op = &ops::kAdd;
  add.in = {sum, dv};
  add.backward = true;
  sum = graph_.nodes[size_t(append_node(graph_, std::move(add), {grad_name(v)}))].out[0];
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

}  // namespace genesis
