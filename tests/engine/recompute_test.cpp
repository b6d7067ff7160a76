#include "engine/passes/recompute.h"

#include <algorithm>
#include <set>

#include "engine/ops/elementwise.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/swiglu.h"
#include "engine/passes/differentiate.h"
#include "engine/passes/plan_memory.h"
#include "engine/passes/print.h"
#include "tests/engine/small_graph.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

Graph trained_graph(int layers = 4, int64_t T = 64) {
  SmallGraph g(layers, T);
  differentiate(g.graph);
  return std::move(g.graph);
}

struct Outcome {
  Graph graph;
  RecomputePlan plan;
  size_t arena = 0;

  std::vector<std::string> kept(const std::string& prefix) const {
    std::vector<std::string> names;
    for (ValueId id : plan.kept) {
      if (graph.value(id).name.starts_with(prefix)) names.push_back(graph.value(id).name);
    }
    return names;
  }
  int replays() const {
    return int(
        std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.recompute; }));
  }
};

Outcome run(RecomputePolicy policy, size_t budget = 0) {
  Outcome o{trained_graph(), {}, 0};
  o.plan = recompute(o.graph, policy, DeviceKind::cpu, kCpuRates, budget);
  const MemoryPlan memory = plan_memory(o.graph, DeviceKind::cpu);
  check_memory_plan(o.graph, memory);
  o.arena = memory.bytes;
  return o;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("recompute: none keeps everything and changes nothing") {
  const Outcome none = run(RecomputePolicy::none);
  CHECK(to_string(none.graph) == to_string(trained_graph()));
  CHECK(none.plan.recomputed.empty());
  CHECK(none.plan.flops == 0);
  // What the backward pass of one layer needs of it, and nothing that it does not.
  CHECK(none.kept("layers.1.") ==
        Names{"layers.1.attn_norm.h", "layers.1.attn_norm", "layers.1.attn_norm.rstd", "layers.1.attn.rope",
              "layers.1.attn.mix", "layers.1.attn.mix.lse", "layers.1.ffn_norm.h", "layers.1.ffn_norm",
              "layers.1.ffn_norm.rstd", "layers.1.ffn.gate_up", "layers.1.ffn.act"});
}

TEST_CASE("recompute: block keeps only the inputs of layers, and what is outside of them") {
  const Outcome block = run(RecomputePolicy::block);
  for (const char* layer : {"1", "2", "3"}) {
    const std::string prefix = "layers." + std::string(layer) + ".";
    CHECK(block.kept(prefix) == Names{prefix + "attn_norm.h"});
  }
  CHECK(block.kept("layers.0.").empty());  // its input is the embedding itself
  CHECK(block.kept("embed") == Names{"embed"});
  CHECK(block.kept("norm") == Names{"norm.h", "norm.rstd"});
  // Nothing is replayed twice, and nothing that nobody asks for: a layer's last product is not, nor is its activation,
  // which the backward pass gives again.
  CHECK(block.replays() == 4 * 7);
  for (const Node& n : block.graph.nodes) {
    if (!n.recompute) continue;
    CHECK(n.backward);
    CHECK(block.graph.value(n.out.back()).name.starts_with("re.layers."));
  }
  CHECK(block.graph.find("re.layers.1.ffn.down") == kNone);
}

TEST_CASE("recompute: the cost is that of the replays") {
  const Outcome block = run(RecomputePolicy::block);
  SmallGraph g(1, 64);
  double flops = 0;
  for (const Node& n : g.graph.nodes) {
    if (n.execution == kNone || n.op == &ops::kSwiGlu || g.graph.value(n.out[0]).name == "layers.0.ffn.down")
      continue;
    flops += cost_of(g.graph, n).flops;
  }
  CHECK(block.plan.flops == Approx(4 * flops));
}

TEST_CASE("recompute: swiglu_backward gives the activation again, and the weight's product waits for it") {
  const Outcome block = run(RecomputePolicy::block);
  const ValueId again = block.graph.at("re.layers.1.ffn.act");
  CHECK(block.graph.value(again).in_place_of == block.graph.at("d.layers.1.ffn.act"));
  const auto node = std::find_if(block.graph.nodes.begin(), block.graph.nodes.end(),
                                 [&](const Node& n) { return !n.out.empty() && n.out.back() == again; });
  REQUIRE(node != block.graph.nodes.end());
  CHECK(node->op == &ops::kSwiGluBackward);
  CHECK(!node->recompute);
  const Node& product = *(node + 1);
  CHECK(product.in[1] == again);
  CHECK(product.into == std::vector<ValueId>{block.graph.at("d.ffn.down.weight")});
  // The norms are replayed for the products behind them, which gives their outputs anyway.
  for (const Node& n : block.graph.nodes) {
    if (n.op == &ops::kRmsNormBackward) CHECK(n.out[1] == kNone);
  }
}

TEST_CASE("recompute: what only backward passes give again is given up with no replay at all") {
  const Outcome none = run(RecomputePolicy::none);
  const Outcome some = run(RecomputePolicy::automatic, none.arena - none.arena / 32);
  CHECK(some.replays() == 0);
  CHECK(some.plan.flops == 0);
  REQUIRE(!some.plan.recomputed.empty());
  int given = 0;
  for (const Node& n : some.graph.nodes) {
    if (n.op != &ops::kSwiGluBackward && n.op != &ops::kRmsNormBackward) continue;
    if (n.out[1] == kNone) continue;
    ++given;
    CHECK(some.graph.value(n.out[1]).in_place_of == n.in[0]);
  }
  CHECK(given == int(some.plan.recomputed.size()));
}

TEST_CASE("recompute: a value that something else needs first is replayed, not waited for") {
  // The branch reads the activation too, to an output that the backward pass goes on with.
  Graph graph = trained_graph();
  const auto product = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
    return n.backward && n.in.size() == 2 && n.in[1] == graph.at("layers.1.ffn.act");
  });
  REQUIRE(product != graph.nodes.end());
  Node copy;
  copy.op = &ops::kAdd;
  copy.in = {product->in[1], product->in[1]};
  copy.backward = true;
  copy.execution = product->execution;
  copy.out = {
      graph.add_value({"twice", graph.value(copy.in[0]).shape, DType::bf16, Role::activation, kNone})};
  graph.nodes.insert(product, copy);
  recompute(graph, RecomputePolicy::block, DeviceKind::cpu, kCpuRates);
  for (const Node& n : graph.nodes) {
    if (n.op != &ops::kSwiGluBackward) continue;
    CHECK((n.out[1] == kNone) == (n.execution == 1));
  }
  CHECK(plan_memory(graph, DeviceKind::cpu).bytes > 0);
}

TEST_CASE("recompute: a norm whose sum was kept starts from it") {
  const Outcome block = run(RecomputePolicy::block);
  bool seen = false;
  for (const Node& n : block.graph.nodes) {
    if (!n.recompute || n.op != &ops::kRmsNorm || n.execution != 2) continue;
    if (block.graph.value(n.out[1]).name != "re.layers.2.attn_norm") continue;
    CHECK(n.in[0] == block.graph.at("layers.2.attn_norm.h"));
    CHECK(n.in[1] == kNone);
    CHECK(n.out[0] == kNone);
    seen = true;
  }
  CHECK(seen);
}

TEST_CASE("recompute: a replay comes right before its first use, and the forward pass is left alone") {
  const Outcome block = run(RecomputePolicy::block);
  const Graph before = trained_graph();
  size_t forward = 0;
  for (const Node& n : before.nodes) forward += !n.backward;
  for (size_t i = 0; i < forward; ++i) {
    CHECK(block.graph.nodes[i].in == before.nodes[i].in);
    CHECK(block.graph.nodes[i].out == before.nodes[i].out);
  }
  // By the time a layer's replays run, those of later layers are used up: executions go down.
  int execution = 1 << 30;
  for (const Node& n : block.graph.nodes) {
    if (!n.recompute) continue;
    CHECK(n.execution <= execution);
    execution = n.execution;
  }
}

TEST_CASE("recompute: auto fits its budget, and gives up no more than it must") {
  const Outcome none = run(RecomputePolicy::none), block = run(RecomputePolicy::block);
  REQUIRE(block.arena < none.arena);
  double flops = 0;
  size_t kept = none.plan.kept.size();
  std::set<size_t> plans;
  constexpr size_t kBudgets = 12;
  for (size_t i = 0; i <= kBudgets; ++i) {
    const size_t budget = none.arena - (none.arena - block.arena) * i / kBudgets;
    const Outcome automatic = run(RecomputePolicy::automatic, budget);
    INFO("budget " << budget << ", arena " << automatic.arena);
    CHECK(automatic.arena <= budget);
    CHECK(automatic.plan.kept.size() + automatic.plan.recomputed.size() == none.plan.kept.size());
    CHECK(automatic.plan.flops >= flops);
    CHECK(automatic.plan.kept.size() <= kept);
    flops = automatic.plan.flops;
    kept = automatic.plan.kept.size();
    plans.insert(kept);
  }
  CHECK(flops <= block.plan.flops);
  CHECK(plans.size() > 5);
  CHECK(*plans.rbegin() == none.plan.kept.size());
}

TEST_CASE("recompute: a budget below the least says how much is needed") {
  const Outcome block = run(RecomputePolicy::block);
  Graph graph = trained_graph();
  const std::string message = message_of(
      [&] { recompute(graph, RecomputePolicy::automatic, DeviceKind::cpu, kCpuRates, size_t(1) << 10); });
  CHECK(lacks(message, "train.memory_budget leaves 0.0 MiB for activations") == "");
  char least[64];
  std::snprintf(least, sizeof least, "they need %.1f MiB", double(block.arena) / (1 << 20));
  CHECK(lacks(message, least) == "");
  CHECK(lacks(message, "raise the budget or lower train.micro_batch") == "");
  CHECK(to_string(graph) == to_string(trained_graph()));  // nothing was changed
}
