// The one model of how long a step takes on a GPU. Recomputation is ordered by it, `genesis_train --plan --gpu`
// and `bench_kernels --model` tell it, and docs/performance.md holds its predictions.
//
// A kernel takes the longer of its bytes' and its operations' time, at the rates that its device reaches with
// large copies and large products, and each launch a gap beside it:
//   max(bytes / rates.bytes, flops / rates.of(unit)) + launches * rates.launch_gap
// Nothing overlaps. Bytes and operations are those of engine/ops/cost.h, which tests/costs holds to what the host
// executor counts of the CUDA kernels. So it is the least time that these kernels may take; what else there is
// stands in not_in_the_model().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/time/rates.h"

namespace genesis {

double seconds_of(const KernelCost& kernel, const Rates& rates);
double seconds_of(const Graph& graph, const Node& node, const Rates& rates);  // of one call

struct GraphTime {
  struct Row {
    std::string kernel;
    double launches = 0, bytes = 0, flops = 0, seconds = 0;
  };
  std::vector<Row> rows;  // of a step: begin and update once, micro `micro_steps` times; the longest first
  Row total;
  double layer_seconds = 0;  // of an average execution of a layer, forward and backward, in one micro-step
};

// A node's kernel as tables name it: products of the backward pass by what they are for, replays as such.
std::string label_of(const Graph& graph, const Node& node, const char* kernel);

GraphTime time_of(const Graph& graph, double micro_steps, const Rates& rates);

// What a step may take time for and the model leaves out, a line each.
std::span<const char* const> not_in_the_model();

}  // namespace genesis
