#include "engine/passes/differentiate.h"

#include "engine/ops/differentiator.h"
#include "engine/ops/op.h"
#include "engine/passes/verify.h"
#include "kernels/common/error.h"

namespace genesis {

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
