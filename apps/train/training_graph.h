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

// What a training step is planned for: a device that is here, or a card that need not be.
struct Target {
  DType dtype = DType::bf16;
  DeviceKind device = DeviceKind::cpu;
  size_t memory = 0;  // bytes that may be used in all; memory_limit of the device's
  // The device's, by which the automatic choice of what to recompute is ordered.
  const Rates* rates = nullptr;
};

// The config's dtype, or the best that the device or card computes in; its kind, memory_limit and rates.
Target target_on(const Config& config, const Device& device);
Target target_on(const Config& config, const Card& card);

// Called after each pass with its name and the graph so far.
using AfterPass = std::function<void(const char* pass, const Graph& graph)>;

// Build, differentiate, optimizer, recompute. The automatic choice of what to recompute keeps within the
// target's memory. Throws Error when even parameters and optimizer do not fit.
TrainingGraph build_training_graph(const Config& config, const Target& target, const AfterPass& after = {});

// FLOPs of the model in a micro-step, forward and backward: what is computed again is not among them.
double model_flops(const Graph& graph);

// Bytes of a graph's values of one role.
size_t bytes_of(const Graph& graph, Role role);

// Bytes of all that a graph needs beside its arena: the values that are no activations, and the nodes' constants.
size_t persistent_bytes(const Graph& graph);

// Throws Error, saying by how much and what to change, unless `persistent` bytes and an arena of `arena` fit into
// `memory`.
void check_fits(const Config& config, size_t persistent, size_t arena, size_t memory);

// The config's budget, or nine tenths of what the device has: the rest is for the system and the program.
size_t memory_limit(const Config& config, size_t device_memory);

}  // namespace genesis
