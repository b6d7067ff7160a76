// A graph as text.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace genesis {

// One node a line, then the persistent values: stable text, for people and for tests.
std::string to_string(const Graph& graph);
std::string to_string(const Graph& graph,
                      const Node& node);  // its op, its values and attributes, on one line

}  // namespace genesis
