#include "bench/kernels/layers_of.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "apps/train/training_graph.h"
#include "engine/ops/attention.h"
#include "engine/ops/matmul.h"
#include "kernels/common/error.h"

namespace genesis::bench {
namespace {

// Of the graph's first execution, in one micro-step without recomputation.
double graph_flops(const Config& config) {
  // Any card's rates will do: nothing is recomputed by them.
  const Target target{DType::bf16, DeviceKind::cuda, std::numeric_limits<size_t>::max(), &cards()[0].rates};
  const Graph graph = build_training_graph(config, target).graph;
  double flops = 0;
  for (const Node& node : graph.nodes) {
    const bool counted = node.execution == 0 && node.phase == Phase::micro && !node.recompute;
    const bool products =
        node.op == &ops::kMatMul || node.op == &ops::kAttention || node.op == &ops::kAttentionBackward;
    if (counted && products) flops += cost_of(graph, node).flops;
  }
  return flops;
}

}  // namespace

std::vector<LayerCase> layers_of(const std::vector<Config>& configs) {
  std::vector<LayerCase> layers;
  for (const Config& config : configs) {
    const Config::Model& m = config.model;
    layers.push_back({std::filesystem::path(config.run_dir).filename().string(), config.train.micro_batch,
                      config.data.sequence_length, m.hidden_size, m.heads, m.kv_heads, m.head_size,
                      m.ffn_size});
    const double here = flops(layers.back()), graph = graph_flops(config);
    check(std::abs(here - graph) < 1e-6 * graph,
          fmt::format("{}: the benchmark's layer takes {} operations, the graph's {}", layers.back().name,
                      here, graph));
  }
  return layers;
}

}  // namespace genesis::bench
