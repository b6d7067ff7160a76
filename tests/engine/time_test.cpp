// The model of time: its formula, the cards, and that recomputation goes by it.
#include <algorithm>
#include <utility>

#include "engine/ops/attention.h"
#include "engine/ops/matmul.h"
#include "engine/passes/differentiate.h"
#include "engine/passes/plan_memory.h"
#include "engine/passes/recompute.h"
#include "engine/time/graph_time.h"
#include "kernels/common/error.h"
#include "tests/engine/small_graph.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

TEST_CASE("time: a kernel takes the longer of its bytes' and its operations' time, and a gap a launch") {
  const Rates rates{.bytes = 100, .library = 1000, .mma = 500, .fma = 50, .launch_gap = 0.25};
  const auto seconds = [&](Unit unit, double flops, double bytes, double launches) {
    return seconds_of({"kernel", unit, flops, bytes, launches}, rates);
  };
  CHECK(seconds(Unit::library, 4000, 100, 1) == 4.25);
  CHECK(seconds(Unit::mma, 4000, 100, 1) == 8.25);
  CHECK(seconds(Unit::fma, 4000, 100, 1) == 80.25);
  CHECK(seconds(Unit::mma, 4000, 1000, 2) == 10.5);
  CHECK(seconds(Unit::fma, 0, 100, 4) == 2);
}

TEST_CASE(
    "time: a step is its begin and update once and its micro-steps, with every launch of every kernel") {
  SmallGraph g;
  differentiate(g.graph);
  append_adamw(g);
  const Rates& rates = card_named("rtx4090").rates;
  const GraphTime one = time_of(g.graph, 1, rates), three = time_of(g.graph, 3, rates);
  double micro = 0, once = 0, launches = 0;
  for (const Node& node : g.graph.nodes) {
    (node.phase == Phase::micro ? micro : once) += seconds_of(g.graph, node, rates);
    for (const KernelCost& kernel : cost_of(g.graph, node).kernels) launches += kernel.launches;
  }
  CHECK(once > 0);
  CHECK(one.total.seconds == Approx(once + micro));
  CHECK(three.total.seconds == Approx(once + 3 * micro));
  CHECK(one.total.launches == launches);
  double rows = 0;
  for (const GraphTime::Row& row : one.rows) rows += row.seconds;
  CHECK(rows == Approx(one.total.seconds));
  const auto has = [&](const std::string& kernel) {
    return std::any_of(one.rows.begin(), one.rows.end(),
                       [&](const GraphTime::Row& row) { return row.kernel == kernel; });
  };
  for (const char* kernel : {"matmul", "matmul, input's gradient", "matmul, weight's gradient", "attention",
                             "attention_backward, dq", "attention_backward, dk dv", "head_loss, products",
                             "head_loss, cross-entropy"}) {
    INFO(kernel);
    CHECK(has(kernel));
  }
}

TEST_CASE("time: cuBLASLt's products have a card's fastest instructions, kernels of our own have mma.sync") {
  for (const Card& card : cards()) {
    INFO(card.name);
    const bool has_more =
        std::string(card.architecture) == "sm_90" || std::string(card.architecture) == "sm_100";
    CHECK((card.rates.library > card.rates.mma) == has_more);
    CHECK(card.rates.mma > card.rates.fma);
    CHECK(card.rates.launch_gap > 0);
  }
}

TEST_CASE("time: cards are found by what people call them") {
  CHECK(std::string(card_named("rtx4090").product) == "RTX 4090");
  CHECK(std::string(card_named("RTX 4090").name) == "rtx4090");
  CHECK(std::string(card_named("rtx-5090").name) == "rtx5090");
  CHECK(std::string(card_named("A100 80GB").name) == "a100");
  CHECK(std::string(card_named("sm_89").name) == "rtx4090");
  // Two have this architecture.
  for (const char* unknown : {"sm_90", "gtx1080", ""}) {
    const std::string message = message_of([&] { card_named(unknown); });
    INFO(message);
    CHECK(message.find("does not name a card") != std::string::npos);
    CHECK(message.find("h100 (H100 SXM), h200 (H200)") != std::string::npos);
  }
}

TEST_CASE("time: a device has the rates of the card that its name names, and no other's") {
  const auto of = [](const std::string& name) { return &rates_of(DeviceKind::cuda, name); };
  const auto card = [](const char* name) { return &card_named(name).rates; };
  CHECK(of("NVIDIA GeForce RTX 4090") == card("rtx4090"));
  CHECK(of("NVIDIA GeForce RTX 5090") == card("rtx5090"));
  CHECK(of("NVIDIA A100-SXM4-80GB") == card("a100"));
  CHECK(of("NVIDIA A100 80GB PCIe") == card("a100"));
  CHECK(of("NVIDIA H100 80GB HBM3") == card("h100"));
  CHECK(of("NVIDIA H200") == card("h200"));
  CHECK(of("NVIDIA B200") == card("b200"));
  for (const char* other : {"NVIDIA RTX A1000", "NVIDIA H1000", "stand-in", ""}) {
    CHECK(of(other) == &cards()[0].rates);
  }
  CHECK(&rates_of(DeviceKind::cpu, "the CPU") == &kCpuRates);
}

// Beyond what the backward kernels give again anyway, either attention or a product is replayed: what the rates
// make the cheaper.
TEST_CASE("time: what is given up first hangs on the rates") {
  const auto replayed = [](const Rates& rates) {
    SmallGraph g(4, 64);
    differentiate(g.graph);
    Graph none = g.graph, block = g.graph;
    recompute(none, RecomputePolicy::none, DeviceKind::cpu, rates);
    recompute(block, RecomputePolicy::block, DeviceKind::cpu, rates);
    const size_t most = plan_memory(none, DeviceKind::cpu).bytes,
                 least = plan_memory(block, DeviceKind::cpu).bytes;
    recompute(g.graph, RecomputePolicy::automatic, DeviceKind::cpu, rates, most - (most - least) * 2 / 5);
    std::pair<bool, bool> found;  // attention, a product
    for (const Node& n : g.graph.nodes) {
      if (!n.recompute) continue;
      found.first |= n.op == &ops::kAttention;
      found.second |= n.op == &ops::kMatMul;
    }
    return found;
  };
  const Rates dear_products{.bytes = 1e30, .library = 1, .mma = 1e30, .fma = 1e30};
  const Rates dear_attention{.bytes = 1e30, .library = 1e30, .mma = 1, .fma = 1e30};
  CHECK(replayed(dear_products) == std::pair(true, false));
  CHECK(replayed(dear_attention) == std::pair(false, true));
}
