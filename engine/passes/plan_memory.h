// Where every activation and every workspace lies in one arena, decided before the first run.
#pragma once

#include <vector>

#include "engine/core/align.h"
#include "engine/device/device.h"
#include "engine/graph/graph.h"

namespace genesis {

struct Placement {
  size_t offset = 0;  // bytes from the arena's start
  size_t bytes = 0;   // a multiple of kArenaAlign
  int first = 0;      // index of the node that assigns it
  int last = 0;       // index of the node that uses it last
};

struct MemoryPlan {
  DeviceKind device = DeviceKind::cpu;
  size_t bytes = 0;                   // of the arena
  std::vector<Placement> values;      // by value id; bytes = 0 for what is not in the arena
  std::vector<Placement> workspaces;  // by node id; bytes = 0 for nodes without one
  // Beside the arena, and as long as the graph can run: the nodes' constants.
  size_t constant_bytes = 0;
  std::vector<size_t> constants;  // by node id: bytes from their start
};

// Values whose lives overlap never share a byte. Largest first, each at the lowest offset that is free during
// its life. A plan for the CPU is for thread_count() threads; one for a GPU depends on the graph alone.
MemoryPlan plan_memory(const Graph& graph, DeviceKind device);

// Proves a plan against the graph anew, sharing no code with plan_memory: replays the nodes of a step of two
// micro-batches in order over a map from bytes to the value that owns them, and throws Error if a value is read
// after another has taken any of its bytes, or lies outside the arena.
void check_memory_plan(const Graph& graph, const MemoryPlan& plan);

}  // namespace genesis
