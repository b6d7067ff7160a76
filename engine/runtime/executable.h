// A graph made ready to run: storage bound, memory planned, every node prepared. It knows no op.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/op.h"
#include "engine/passes/plan_memory.h"
#include "engine/runtime/storage.h"

namespace genesis {

class Executable {
 public:
  // Plans memory, has the plan checked, binds the graph's persistent values to the storage and makes room for
  // the activations.
  Executable(Graph graph, Storage& storage);

  // Runs the nodes of one phase, in order; from the second time on as one graph of the device's, where it records, to
  // the same bits. The arena may have moved since the last run: steps are prepared again. Throws Error, naming the node
  // and its values, when the device refuses one; what fails later on a GPU, it says where the host waits for it.
  void run(Phase phase);

  // Prepares every node for the arena as it is now, unless that is done. A run sees to it itself; before, an op's
  // refusal shows earlier, and the first run takes no longer than others.
  void prepare();

  const Graph& graph() const { return graph_; }
  const MemoryPlan& memory() const { return memory_; }

  // Seconds that each node has taken since timing was turned on, by node id; the CPU device only.
  void time_nodes(bool on);
  const std::vector<double>& node_seconds() const { return seconds_; }

 private:
  struct Step {
    Run run;
    NodeId node;
  };

  Prepare prepare_of(const Node& node) const;
  void run_steps(const std::vector<Step>& steps);
  std::unique_ptr<DeviceGraph> record(const std::vector<Step>& steps);
  void* address(ValueId id) const;

  Graph graph_;
  Storage& storage_;
  MemoryPlan memory_;
  DeviceBuffer constants_;
  struct PhaseSteps {
    std::vector<Step> steps;
    bool has_run = false;  // since they were prepared, so that everything is warm
    std::unique_ptr<DeviceGraph> recorded;
  };
  std::array<PhaseSteps, 3> phases_;  // by phase
  void* arena_ = nullptr;             // where the steps were prepared for
  std::vector<double> seconds_;       // empty: not timed
};

}  // namespace genesis
