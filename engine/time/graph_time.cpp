#include "engine/time/graph_time.h"

#include <algorithm>
#include <map>

#include "engine/ops/matmul.h"

namespace genesis {

double seconds_of(const KernelCost& kernel, const Rates& rates) {
  const double operations = kernel.flops > 0 ? kernel.flops / rates.of(kernel.unit) : 0;
  return std::max(kernel.bytes / rates.bytes, operations) + kernel.launches * rates.launch_gap;
}

double seconds_of(const Graph& graph, const Node& node, const Rates& rates) {
  double seconds = 0;
  for (const KernelCost& kernel : cost_of(graph, node).kernels) seconds += seconds_of(kernel, rates);
  return seconds;
}

namespace {

void add(GraphTime::Row& sum, const GraphTime::Row& row) {
  sum.launches += row.launches;
  sum.bytes += row.bytes;
  sum.flops += row.flops;
  sum.seconds += row.seconds;
}

}  // namespace

std::string label_of(const Graph& graph, const Node& node, const char* kernel) {
  std::string name = kernel;
  if (node.op == &ops::kMatMul && node.backward && !node.recompute) {
    name += graph.value(node.in[1]).role == Role::parameter ? ", input's gradient" : ", weight's gradient";
  }
  return node.recompute ? name + ", again" : name;
}

GraphTime time_of(const Graph& graph, double micro_steps, const Rates& rates) {
  std::map<std::string, GraphTime::Row> rows;
  GraphTime time;
  time.total.kernel = "step";
  int executions = 0;
  for (const Node& node : graph.nodes) {
    const double calls = node.phase == Phase::micro ? micro_steps : 1;
    for (const KernelCost& kernel : cost_of(graph, node).kernels) {
      const double seconds = seconds_of(kernel, rates);
      const GraphTime::Row all{label_of(graph, node, kernel.name), calls * kernel.launches,
                               calls * kernel.bytes, calls * kernel.flops, calls * seconds};
      GraphTime::Row& row = rows.emplace(all.kernel, GraphTime::Row{.kernel = all.kernel}).first->second;
      add(row, all);
      add(time.total, all);
      if (node.execution != kNone) time.layer_seconds += seconds;
    }
    executions = std::max(executions, node.execution + 1);
  }
  time.layer_seconds /= std::max(executions, 1);
  for (auto& [name, row] : rows) time.rows.push_back(std::move(row));
  std::stable_sort(time.rows.begin(), time.rows.end(),
                   [](const GraphTime::Row& a, const GraphTime::Row& b) { return a.seconds > b.seconds; });
  return time;
}

std::span<const char* const> not_in_the_model() {
  static constexpr const char* kLines[] = {
      "communication between cards",
      "the host: batches, validation, checkpoints",
      "products that are too small for a card's rate, and launches whose last blocks leave it idle",
      "what keeps a kernel from the rates above: the softmax between attention's products, barriers, sorting",
      "the other way round, bytes that a cache saves, and attention's tiles between documents",
  };
  return kLines;
}

}  // namespace genesis
