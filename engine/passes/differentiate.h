// Reverse-mode differentiation of a graph, op by op.
#pragma once

#include "engine/graph/graph.h"

namespace genesis {

// Appends the backward pass of every loss node to the micro phase. Each parameter that the loss depends
// on gets one fp32 gradient value, "d.<parameter>", that all its uses accumulate into: shared weights and
// gradient accumulation are one mechanism. Gradients are sums over tokens, not means.
void differentiate(Graph& graph);

}  // namespace genesis
