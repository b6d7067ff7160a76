// From a config to the graph that trains it: the passes in order.
#pragma once

#include <functional>

#include "engine/graph/graph.h"
#include "engine/passes/recompute.h"
#include "io/config.h"

namespace genesis {

struct TrainingGraph {
  Graph graph;
  RecomputePlan recompute;
};

// Called after each pass with its name and the graph so far.
using AfterPass = std::function<void(const char* pass, const Graph& graph)>;

// Build, differentiate, optimizer, recompute. `memory` is what the device may use in all, in bytes; the
// automatic choice of what to recompute keeps within it. Throws Error when even parameters and optimizer do
// not fit.
TrainingGraph build_training_graph(const Config& config, DType dtype, DeviceKind device, size_t memory,
                                   const AfterPass& after = {});

// Bytes of a graph's values of one role, and of all but activations.
size_t bytes_of(const Graph& graph, Role role);
size_t persistent_bytes(const Graph& graph);

// The config's budget, or nine tenths of what the device has: the rest is for the system and the program.
size_t memory_limit(const Config& config, size_t device_memory);

}  // namespace genesis
