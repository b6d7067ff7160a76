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

}  // namespace genesis
