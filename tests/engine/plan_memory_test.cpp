#include "engine/passes/plan_memory.h"

#include <algorithm>
#include <map>
#include <random>

#include "engine/ops/attention.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/head_loss.h"
#include "engine/ops/matmul.h"
#include "engine/ops/rmsnorm.h"
#include "engine/passes/differentiate.h"
#include "engine/passes/verify.h"
#include "kernels/adamw/adamw.h"
#include "kernels/common/parallel.h"
#include "kernels/grad_norm/grad_norm.h"
#include "tests/engine/small_graph.h"
#include "tests/support/catch.h"
#include "tests/support/live_bytes.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

// A block of the arena and the nodes from whose start to whose end it is in use, found without plan_memory.
struct Use {
  std::string name;
  Placement* placement = nullptr;
  size_t bytes = 0;
  int first = 0, last = 0;

  bool meets(const Use& other) const {
    return first <= other.last && other.first <= last &&
           placement->offset < other.placement->offset + other.bytes &&
           other.placement->offset < placement->offset + bytes;
  }
};

std::vector<Use> uses_of(const Graph& graph, MemoryPlan& plan) {
  std::map<ValueId, Use> values;
  std::vector<Use> uses;
  for (int i = 0; i < int(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[size_t(i)];
    if (const size_t bytes = workspace_of(graph, node, plan.device)) {
      uses.push_back({"workspace " + std::to_string(i), &plan.workspaces[size_t(i)], bytes, i, i});
    }
    for (const auto* ids : {&node.in, &node.out}) {
      for (ValueId id : *ids) {
        if (id == kNone || graph.value(id).role != Role::activation) continue;
        const ValueId storage = graph.storage_of(id);
        auto [it, is_new] = values.try_emplace(storage);
        if (is_new) {
          it->second = {graph.value(storage).name, &plan.values[size_t(storage)], graph.value(id).bytes(), i,
                        i};
        }
        it->second.last = i;
      }
    }
  }
  for (auto& [id, use] : values) uses.push_back(use);
  return uses;
}

// The first two uses that share bytes at one time.
std::string overlap(const std::vector<Use>& uses) {
  for (size_t i = 0; i < uses.size(); ++i) {
    for (size_t j = i + 1; j < uses.size(); ++j) {
      if (uses[i].meets(uses[j])) return uses[i].name + " and " + uses[j].name;
    }
  }
  return "";
}

size_t most_live(const std::vector<Use>& uses, int nodes) {
  size_t most = 0;
  for (int i = 0; i < nodes; ++i) {
    size_t live = 0;
    for (const Use& u : uses) {
      if (u.first <= i && i <= u.last) live += (u.bytes + kArenaAlign - 1) / kArenaAlign * kArenaAlign;
    }
    most = std::max(most, live);
  }
  return most;
}

// Additions, norms and their gradients (with a workspace), and rotations in place, of values of several sizes
// that are used soon, late or never.
Graph random_graph(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t n) { return size_t(random() % n); };
  constexpr int64_t kWidth = 24;  // a query, a key and a value of 8
  struct Pool {
    int64_t rows;
    ValueId positions, sum;
    std::vector<ValueId> wide, rstd;
  };
  Graph graph;
  Builder b(graph);
  std::vector<Pool> pools;
  const ValueId weight = b.persistent("weight", {kWidth}, DType::f32, Role::parameter);
  for (int64_t rows : {1, 7, 90, 300}) {
    const std::string n = std::to_string(rows);
    Pool p{rows,
           b.persistent("positions." + n, {rows}, DType::i32, Role::input),
           b.persistent("sum." + n, {kWidth}, DType::f32, Role::gradient),
           {},
           {}};
    const ValueId x = b.persistent("x." + n, {rows, kWidth}, DType::f32, Role::input);
    for (const char* first : {"first.", "second."}) {
      const NodeId node = b.append(ops::kAdd, {}, {x, x}, {first + n});
      p.wide.push_back(graph.nodes[size_t(node)].out[0]);
    }
    pools.push_back(std::move(p));
  }
  for (int i = 0; i < 60; ++i) {
    Pool& p = pools[draw(pools.size())];
    const std::string name = std::string("v") + std::to_string(i);
    const auto any = [&] { return p.wide[draw(p.wide.size())]; };
    switch (draw(4)) {
      case 0:
        p.wide.push_back(graph.nodes[size_t(b.append(ops::kAdd, {}, {any(), any()}, {name}))].out[0]);
        break;
      case 1: {
        const NodeId node =
            b.append(ops::kRmsNorm, NormAttrs{}, {any(), any(), weight}, {name + ".h", name, name + ".rstd"});
        for (int out : {0, 1}) p.wide.push_back(graph.nodes[size_t(node)].out[size_t(out)]);
        p.rstd.push_back(graph.nodes[size_t(node)].out[2]);
        break;
      }
      case 2: {
        const size_t gone = draw(p.wide.size());
        p.wide[gone] = b.rope(name, p.wide[gone], p.positions, {.H = 1, .KV = 1, .K = 8});
        break;
      }
      default:
        if (p.rstd.empty()) break;
        const NodeId node =
            b.append(ops::kRmsNormBackward, NormAttrs{},
                     {any(), draw(2) ? any() : kNone, any(), p.rstd[draw(p.rstd.size())], weight}, {name, ""},
                     {p.sum});
        p.wide.push_back(graph.nodes[size_t(node)].out[0]);
    }
  }
  verify(graph);
  return graph;
}

}  // namespace

TEST_CASE("plan_memory: on random graphs no two values that live together share a byte") {
  int workspaces = 0, in_place = 0, reused = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    const Graph graph = random_graph(seed);
    MemoryPlan plan = plan_memory(graph, DeviceKind::cpu);
    const std::vector<Use> uses = uses_of(graph, plan);
    REQUIRE(overlap(uses) == "");
    REQUIRE(message_of([&] { check_memory_plan(graph, plan); }) == "");
    REQUIRE(live_bytes(plan) == most_live(uses, int(graph.nodes.size())));
    REQUIRE(plan.bytes >= live_bytes(plan));
    size_t end = 0, sum = 0;
    for (const Use& u : uses) {
      REQUIRE(u.placement->offset % kArenaAlign == 0);
      REQUIRE(u.placement->bytes >= u.bytes);
      end = std::max(end, u.placement->offset + u.placement->bytes);
      sum += u.placement->bytes;
      workspaces += u.name.starts_with("workspace");
    }
    REQUIRE(end == plan.bytes);
    reused += plan.bytes < sum;
    for (const Value& v : graph.values) in_place += v.in_place_of != kNone;
  }
  // The graphs have in them what they are made to have.
  CHECK(workspaces > 1000);
  CHECK(in_place > 1000);
  CHECK(reused == 200);
}

TEST_CASE("plan_memory: the checker finds a planted overlap exactly when there is one") {
  int found = 0, sound = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed);
    const MemoryPlan plan = plan_memory(graph, DeviceKind::cpu);
    std::mt19937_64 random(seed);
    for (int fault = 0; fault < 30; ++fault) {
      MemoryPlan broken = plan;
      const std::vector<Use> uses = uses_of(graph, broken);
      Placement& a = *uses[random() % uses.size()].placement;
      Placement& b = *uses[random() % uses.size()].placement;
      switch (fault % 3) {
        case 0:  // shift it
          a.offset = random() % (plan.bytes / kArenaAlign) * kArenaAlign;
          break;
        case 1:  // put it where another lies
          a.offset = b.offset;
          break;
        default:
          std::swap(a.offset, b.offset);
      }
      broken.bytes = 1 << 30;  // only overlaps are looked for
      const std::string expected = overlap(uses);
      const std::string message = message_of([&] { check_memory_plan(graph, broken); });
      INFO("seed " << seed << ", fault " << fault << ": " << expected << "; the checker: " << message);
      REQUIRE((message == "") == (expected == ""));
      ++(expected == "" ? sound : found);
    }
  }
  CHECK(found > 300);
  CHECK(sound > 200);
}

TEST_CASE("plan_memory: the checker finds blocks that are too small, outside or misplaced") {
  SmallGraph g;
  differentiate(g.graph);
  const MemoryPlan plan = plan_memory(g.graph, DeviceKind::cpu);
  const ValueId v = g.graph.at("layers.0.ffn_norm.h");
  REQUIRE(message_of([&] { check_memory_plan(g.graph, plan); }) == "");
  const auto after = [&](const auto& damage) {
    MemoryPlan broken = plan;
    damage(broken);
    return message_of([&] { check_memory_plan(g.graph, broken); });
  };
  const std::string unfit = "memory plan: 'layers.0.ffn_norm.h' does not fit";
  CHECK(after([&](MemoryPlan& p) { p.values[size_t(v)].bytes = 0; }) == unfit);
  CHECK(after([&](MemoryPlan& p) { p.values[size_t(v)].bytes = g.graph.value(v).bytes() - 1; }) == unfit);
  CHECK(after([&](MemoryPlan& p) { p.values[size_t(v)].offset = p.bytes; }) == unfit);
  CHECK(after([&](MemoryPlan& p) { p.values[size_t(v)].offset += 1; }) == unfit);
  CHECK(lacks(after([&](MemoryPlan& p) { p.bytes -= kArenaAlign; }), "does not fit") == "");
}

TEST_CASE("plan_memory: the checker finds what the second micro-batch would read overwritten") {
  // y = 2 x is made once, and read by each micro-batch, whose own values lie in its bytes.
  Graph graph;
  Builder begin(graph, Phase::begin), micro(graph);
  const ValueId x = begin.persistent("x", {100}, DType::f32, Role::input);
  const ValueId y = begin.add("y", x, x);
  ValueId v = micro.add("v", y, x);
  for (const char* name : {"v.1", "v.2"}) v = micro.add(name, v, v);
  const MemoryPlan plan = plan_memory(graph, DeviceKind::cpu);
  REQUIRE(plan.bytes == 2 * plan.values[size_t(y)].bytes);
  CHECK(message_of([&] { check_memory_plan(graph, plan); }) ==
        "memory plan: 'y' has lost its bytes to another value while it is in use");
  CHECK(lacks(message_of([&] { verify(graph); }),
              "use of 'y', an activation of phase begin in: micro  add(y, x)") == "");
}

TEST_CASE("plan_memory: constants are planned beside the arena, and may not overlap") {
  SmallGraph g;
  differentiate(g.graph);
  append_adamw(g);
  const MemoryPlan plan = plan_memory(g.graph, DeviceKind::cpu);
  CHECK(plan.constant_bytes >= 8 * (sizeof(AdamWTensor) + sizeof(GradTensor)));
  MemoryPlan broken = plan;
  broken.constants.back() = 0;  // AdamW's, where the norm's are
  CHECK(message_of([&] { check_memory_plan(g.graph, broken); }) == "memory plan: 'constants' does not fit");
  broken = plan;
  broken.constant_bytes -= kArenaAlign;
  CHECK(message_of([&] { check_memory_plan(g.graph, broken); }) == "memory plan: 'constants' does not fit");
}

TEST_CASE("plan_memory: a GPU's plan depends on the graph alone, and has what its kernels ask for") {
  SmallGraph g(2, 300);
  differentiate(g.graph);
  append_adamw(g);
  const int threads = thread_count();
  set_thread_count(1);
  const MemoryPlan one = plan_memory(g.graph, DeviceKind::cuda),
                   on_cpu = plan_memory(g.graph, DeviceKind::cpu);
  set_thread_count(7);
  const MemoryPlan seven = plan_memory(g.graph, DeviceKind::cuda);
  CHECK(plan_memory(g.graph, DeviceKind::cpu).bytes > on_cpu.bytes);
  set_thread_count(threads);
  CHECK(one.bytes == seven.bytes);
  CHECK(message_of([&] { check_memory_plan(g.graph, one); }) == "");
  for (size_t i = 0; i < g.graph.nodes.size(); ++i) {
    const Node& n = g.graph.nodes[i];
    CHECK(one.workspaces[i].bytes == seven.workspaces[i].bytes);
    if (n.op == &ops::kMatMul) CHECK(one.workspaces[i].bytes == cuda::kMatMulWorkspace);
    if (n.op == &ops::kHeadLoss) CHECK(one.workspaces[i].bytes > cuda::kMatMulWorkspace);
    if (n.op != &ops::kAttentionBackward) continue;
    // Each of the two query heads' parts of dk and dv of the one key head, in fp32.
    CHECK(one.workspaces[i].bytes > 2 * 300 * 2 * 8 * sizeof(float));
  }
}

// docs/performance.md, "The output layer", counts bytes and the loss's accuracy of both.
TEST_CASE(
    "plan_memory: a GPU takes 2,048 rows of bf16 logits in less memory than 768 of fp32 and a gradient "
    "apart") {
  constexpr int64_t kRows = 8192, kV = 49152, kD = 8;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    Graph graph;
    Builder b(graph);
    const ValueId x = b.persistent("x", {kRows, kD}, dtype, Role::parameter);
    const ValueId weight = b.persistent("weight", {kV, kD}, dtype, Role::parameter);
    const ValueId targets = b.persistent("targets", {kRows}, DType::i32, Role::input);
    const ValueId loss = b.persistent("loss", {kLossSumFloats}, DType::f32, Role::result);
    b.head_loss(x, weight, targets, loss, {});
    differentiate(graph);
    const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                    [](const Node& n) { return n.op == &ops::kHeadLoss; });
    REQUIRE(found != graph.nodes.end());
    const auto size = int64_t(size_of(dtype)), rows = 4096 / size;
    INFO(name_of(dtype));
    const size_t on_gpu = workspace_of(graph, *found, DeviceKind::cuda) - cuda::kMatMulWorkspace;
    CHECK(on_gpu == size_t(rows * kV * size + rows * 4));
    CHECK(on_gpu < 768 * kV * (4 + 2));
    const std::vector<MatMulShape> products = products_of(graph, *found, DeviceKind::cuda);
    REQUIRE(products.size() == size_t(3 * kRows / rows));
    CHECK(products[0].M == rows);
    CHECK(products[0].c == dtype);
    // The CPU's cross-entropy takes fp32 logits.
    CHECK(products_of(graph, *found, DeviceKind::cpu)[0].M == 768);
    CHECK(products_of(graph, *found, DeviceKind::cpu)[0].c == DType::f32);
    CHECK(workspace_of(graph, *found, DeviceKind::cpu) > size_t(768 * kV * (4 + size % 4)));
  }
}

TEST_CASE("plan_memory: a workspace is planned, and may not cover its node's own values") {
  SmallGraph g;
  const MemoryPlan plan = plan_memory(g.graph, DeviceKind::cpu);
  for (size_t i = 0; i < g.graph.nodes.size(); ++i) {
    CHECK((plan.workspaces[i].bytes > 0) == (workspace_of(g.graph, g.graph.nodes[i], DeviceKind::cpu) > 0));
  }
  const Node& loss = g.graph.nodes.back();
  REQUIRE(loss.op == &ops::kHeadLoss);
  MemoryPlan broken = plan;
  broken.workspaces.back().offset = plan.values[size_t(loss.in[0])].offset;
  broken.bytes += plan.bytes;
  CHECK(message_of([&] { check_memory_plan(g.graph, broken); }) ==
        "memory plan: 'norm' has lost its bytes to another value while it is in use");

  differentiate(g.graph);
  broken = plan_memory(g.graph, DeviceKind::cpu);
  for (size_t i = 0; i < g.graph.nodes.size(); ++i) {
    if (g.graph.nodes[i].op != &ops::kHeadLoss) continue;
    broken.workspaces[i].offset = broken.values[size_t(g.graph.nodes[i].out[0])].offset;
  }
  broken.bytes += broken.bytes;
  CHECK(message_of([&] { check_memory_plan(g.graph, broken); }) ==
        "memory plan: 'workspace' overlaps an output of its node");
}
