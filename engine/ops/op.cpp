#include "engine/ops/op.h"

namespace genesis {

double bytes_touched(const Graph& graph, const Node& node) {
  double bytes = 0;
  for (ValueId id : node.in) bytes += id == kNone ? 0. : double(graph.value(id).bytes());
  for (ValueId id : node.out) bytes += id == kNone ? 0. : double(graph.value(id).bytes());
  for (ValueId id : node.into) bytes += 2. * double(graph.value(id).bytes());
  return bytes;
}

Cost cost_of(const Graph& graph, const Node& node) { return node.op->cost(graph, node); }

size_t workspace_of(const Graph& graph, const Node& node, DeviceKind kind) {
  const DeviceOp& op = node.op->on(kind);
  return op.workspace ? op.workspace(graph, node) : 0;
}

size_t constants_of(const Graph& graph, const Node& node) {
  return node.op->constants ? node.op->constants(graph, node) : 0;
}

std::vector<MatMulShape> products_of(const Graph& graph, const Node& node, DeviceKind kind) {
  return node.op->products ? node.op->products(graph, node, kind) : std::vector<MatMulShape>{};
}

NodeId append_node(Graph& graph, Node node, const std::vector<std::string>& out_names) {
  const OpDef& def = *node.op;
  const std::vector<ValueType> types = def.infer(graph, node);
  require(types.size() == out_names.size(), "a name for every output");
  for (size_t i = 0; i < types.size(); ++i) {
    if (out_names[i].empty()) {
      node.out.push_back(kNone);
      continue;
    }
    Value v{out_names[i], types[i].shape, types[i].dtype, Role::activation, kNone};
    if (def.in_place == int(i)) v.in_place_of = node.in[0];
    node.out.push_back(graph.add_value(std::move(v)));
  }
  graph.nodes.push_back(std::move(node));
  return NodeId(graph.nodes.size()) - 1;
}

}  // namespace genesis
