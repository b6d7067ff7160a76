// The rules that every graph keeps.
#pragma once

#include "engine/graph/graph.h"

namespace genesis {

// Throws Error if the graph breaks a rule: ops that the table lists, ids in range, names unique, phases in order,
// every value assigned once and before its uses, an activation used in no phase but its own, an overwritten value
// never used again, nothing but persistent values changed, shapes and types as the ops demand.
void verify(const Graph& graph);

}  // namespace genesis
