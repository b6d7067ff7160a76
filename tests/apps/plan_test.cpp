#include <fmt/format.h>

#include <algorithm>

#include "apps/train/plan_report.h"
#include "apps/train/training_graph.h"
#include "engine/ops/op.h"
#include "io/format.h"
#include "model/parameters.h"
#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("a plan tells what Muon saves of the moments, and what it costs") {
  Config config = load_config(GENESIS_SOURCE_DIR "/configs/quickstart.yaml");
  double elements = 0, products = 0;  // of the matrices that Muon takes, and FLOPs of its five iterations
  for (const Parameter& p : parameters(config.model)) {
    for (const int64_t rows : layer_matrices(p)) {
      const auto s = double(std::min(rows, p.shape[1])), l = double(std::max(rows, p.shape[1]));
      elements += s * l;
      products += 5 * 2 * (s * s * l + s * s * s + s * s * l);
    }
  }
  config.train.memory_budget = int64_t(1) << 40;
  REQUIRE(elements > 0.5 * double(parameter_count(config.model)));
  for (const auto kind : {Config::OptimKind::adamw, Config::OptimKind::muon}) {
    INFO(name_of(kind));
    config.optim.kind = kind;
    const bool muon = kind == Config::OptimKind::muon;
    const Graph graph =
        build_training_graph(config, {DType::bf16, DeviceKind::cpu, size_t(1) << 40, &kCpuRates}).graph;
    const auto moments = double(bytes_of(graph, Role::moment));
    CHECK(moments == 8. * double(parameter_count(config.model)) - (muon ? 4 * elements : 0));

    double update = 0;
    for (const Node& node : graph.nodes) {
      if (node.phase == Phase::update) update += cost_of(graph, node).flops;
    }
    // AdamW's and the norm's are some operations an element, and so are Muon's between its products.
    CHECK(update >= (muon ? products : 0));
    CHECK(update <= (muon ? products : 0) + 100 * double(parameter_count(config.model)));
    const auto tokens = double(config.train.batch_size * config.data.sequence_length);
    const std::string report = plan_report(config, *make_cpu_device());
    INFO(report);
    const auto has = [&](const std::string& row) { return report.find(row) != std::string::npos; };
    CHECK(has(fmt::format("  {:<30}{:>18}\n", "optimizer", format_bytes(moments))));
    CHECK(has(fmt::format("  {:<30}{:>18}   {} a step\n", "optimizer", format_count(update / tokens),
                          format_count(update))));
  }
}
