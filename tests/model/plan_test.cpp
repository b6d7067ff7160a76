// The memory and recompute plans of the models that the project is for, without allocating them.
#include <algorithm>

#include "engine/ops/attention.h"
#include "engine/ops/matmul.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/swiglu.h"
#include "engine/passes/differentiate.h"
#include "engine/passes/plan_memory.h"
#include "engine/passes/recompute.h"
#include "model/decoder.h"
#include "model/executions.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "tests/support/catch.h"
#include "tests/support/live_bytes.h"

using namespace genesis;

namespace {

struct Planned {
  Graph graph;
  RecomputePlan recomputed;
  MemoryPlan memory;
};

Planned plan(const std::string& config, RecomputePolicy policy, size_t budget = 0,
             DeviceKind device = DeviceKind::cpu) {
  const Config c = load_config(GENESIS_SOURCE_DIR "/configs/" + config + ".yaml");
  const BatchShape shape{c.train.micro_batch, c.data.sequence_length, c.data.document_mask};
  Planned p;
  p.graph = build_loss_graph(c.model, shape, DType::bf16, trained_recurrence(c.model));
  differentiate(p.graph);
  std::vector<TrainedParameter> trained;
  for (const Parameter& parameter : parameters(c.model)) trained.push_back({parameter.name, parameter.decay});
  append_optimizer(p.graph, p.graph.at(kLossAndCount), 1, *make_optimizer({}), trained);
  p.recomputed = recompute(p.graph, policy, device, kCpuRates, budget);
  p.memory = plan_memory(p.graph, device);
  check_memory_plan(p.graph, p.memory);
  return p;
}

constexpr const char* kConfigs[] = {"genesis_1b_run1",   "genesis_1b", "nano_1b",
                                    "nano_1b_recurrent", "quickstart", "quickstart_recurrent"};

}  // namespace

TEST_CASE("plans: the arena of every config is little larger than what is live at once") {
  for (const char* config : kConfigs) {
    for (const RecomputePolicy policy : {RecomputePolicy::none, RecomputePolicy::block}) {
      const Planned p = plan(config, policy);
      INFO(config << ", policy " << int(policy) << ": arena " << p.memory.bytes << ", live "
                  << live_bytes(p.memory));
      CHECK(p.memory.bytes >= live_bytes(p.memory));
      CHECK(double(p.memory.bytes) <= 1.01 * double(live_bytes(p.memory)));
    }
  }
}

TEST_CASE("plans: auto fits every budget down to the least, gives up the cheap first and attention last") {
  const auto replays = [](const Planned& p, const OpDef& op) {
    return std::any_of(p.graph.nodes.begin(), p.graph.nodes.end(),
                       [&](const Node& n) { return n.recompute && n.op == &op; });
  };
  const auto given_again = [](const Planned& p, const OpDef& op) {
    return std::any_of(p.graph.nodes.begin(), p.graph.nodes.end(),
                       [&](const Node& n) { return n.op == &op && n.out.back() != kNone; });
  };
  for (const char* config : {"genesis_1b", "nano_1b_recurrent"}) {
    const Planned none = plan(config, RecomputePolicy::none), block = plan(config, RecomputePolicy::block);
    REQUIRE(block.memory.bytes < none.memory.bytes / 5);
    double flops = 0;
    size_t given_up = 0;
    constexpr size_t kSteps = 6;
    for (size_t i = 1; i <= kSteps; ++i) {
      const size_t budget = none.memory.bytes - (none.memory.bytes - block.memory.bytes) * i / kSteps;
      const Planned automatic = plan(config, RecomputePolicy::automatic, budget);
      INFO(config << ", budget " << budget << ", arena " << automatic.memory.bytes);
      CHECK(automatic.memory.bytes <= budget);
      CHECK(double(automatic.memory.bytes) > 0.95 * double(budget));  // it is made use of
      CHECK(automatic.recomputed.recomputed.size() > given_up);
      CHECK(automatic.recomputed.flops >= flops);
      given_up = automatic.recomputed.recomputed.size();
      flops = automatic.recomputed.flops;
      // Norms and activations are given again by the backward passes, for the bytes of writing them.
      if (i == 1) CHECK(automatic.recomputed.flops == 0);
      CHECK(given_again(automatic, ops::kSwiGluBackward));
      if (i == kSteps / 2) CHECK(given_again(automatic, ops::kRmsNormBackward));
      CHECK(replays(automatic, ops::kAttention) == (i == kSteps));
    }
    CHECK(flops <= block.recomputed.flops);
  }
}
