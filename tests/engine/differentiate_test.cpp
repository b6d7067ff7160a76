#include "engine/passes/differentiate.h"

#include <algorithm>

#include "engine/ops/attention.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"
#include "engine/ops/rmsnorm.h"
#include "engine/runtime/executable.h"
#include "tests/engine/small_graph.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

int uses_of(const Graph& graph, ValueId buffer) {
  int uses = 0;
  for (const Node& n : graph.nodes) uses += int(std::count(n.into.begin(), n.into.end(), buffer));
  return uses;
}

int count_of(const Graph& graph, const OpDef& op) {
  return int(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op == &op; }));
}

}  // namespace

TEST_CASE("differentiate: every parameter gets one fp32 buffer, whatever it is used for") {
  SmallGraph g(2);
  const size_t forward = g.graph.nodes.size();
  differentiate(g.graph);
  for (ValueId p : g.graph.with_role(Role::parameter)) {
    const Value& parameter = g.graph.value(p);
    const Value& buffer = g.graph.value(g.graph.at("d." + parameter.name));
    INFO(parameter.name);
    CHECK(buffer.role == Role::gradient);
    CHECK(buffer.dtype == DType::f32);
    CHECK(buffer.shape == parameter.shape);
  }
  CHECK(g.graph.with_role(Role::gradient).size() == g.graph.with_role(Role::parameter).size());
  // Tied: embedding and output layer add to one buffer. Shared: so do the two executions of the layer.
  CHECK(uses_of(g.graph, g.graph.at("d.embed.weight")) == 2);
  CHECK(uses_of(g.graph, g.graph.at("d.ffn.down.weight")) == 2);
  CHECK(uses_of(g.graph, g.graph.at("d.norm.weight")) == 1);
  for (size_t i = 0; i < g.graph.nodes.size(); ++i) CHECK(g.graph.nodes[i].backward == (i >= forward));
  // A backward node belongs to the execution of its forward node.
  for (const Node& n : g.graph.nodes) {
    if (n.op == &ops::kAttentionBackward)
      CHECK(n.execution == (n.in[0] == g.graph.at("layers.0.attn.rope") ? 0 : 1));
  }
}

TEST_CASE("differentiate: the residual stream's gradient is added in the norms, with no node of its own") {
  SmallGraph g(3);
  differentiate(g.graph);
  CHECK(count_of(g.graph, ops::kAdd) == 0);
  int fused = 0;
  for (const Node& n : g.graph.nodes) fused += n.op == &ops::kRmsNormBackward && n.in[1] != kNone;
  CHECK(fused == 2 * 3);  // all but the last norm, which nothing passes by
}

TEST_CASE("differentiate: the gradient of a value used twice is the sum of its uses") {
  // loss(x W1^T) of which x = table[tokens], used by two products.
  Graph graph;
  Builder b(graph);
  const ValueId tokens = b.persistent("tokens", {3}, DType::i32, Role::input);
  const ValueId targets = b.persistent("targets", {3}, DType::i32, Role::input);
  const ValueId loss = b.persistent("loss_and_count", {4}, DType::f32, Role::result);
  const ValueId table = b.persistent("table", {5, 4}, DType::f32, Role::parameter);
  const ValueId w1 = b.persistent("w1", {4, 4}, DType::f32, Role::parameter);
  const ValueId w2 = b.persistent("w2", {4, 4}, DType::f32, Role::parameter);
  const ValueId norm = b.persistent("norm", {4}, DType::f32, Role::parameter);
  const ValueId x = b.embedding("x", tokens, table);
  const ValueId y = b.rmsnorm("sum", b.linear("a", x, w1), b.linear("b", x, w2), norm, 1e-5f).y;
  b.head_loss(y, table, targets, loss, {.chunk = 2});
  differentiate(graph);

  REQUIRE(count_of(graph, ops::kAdd) == 1);
  const auto add =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op == &ops::kAdd; });
  CHECK(graph.value(add->in[0]).name == "d.x");
  CHECK(graph.value(add->in[1]).name == "d.x.1");
  CHECK(graph.value(add->out[0]).name == "d.x.2");
  const auto scatter = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                    [](const Node& n) { return n.op == &ops::kEmbeddingBackward; });
  CHECK(scatter->in[1] == add->out[0]);

  // The numbers: with W1 = W2 both contributions are alike, and the table's gradient twice one of them.
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage(*device);
  Executable executable(graph, storage);
  const auto set = [&](const char* name, std::vector<float> values) {
    storage.write(name, values.data(), values.size() * sizeof(float));
  };
  const std::vector<float> w = {.1f,  .2f, -.3f, .4f, .5f, -.6f, .7f, .8f,
                                -.9f, 1.f, .1f,  .3f, .2f, .5f,  .4f, -.2f};
  std::vector<float> rows(20);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = float(i % 7) - 3;
  set("table", rows);
  set("w1", w);
  set("w2", w);
  set("norm", {1, 1, 1, 1});
  const std::vector<int32_t> ids = {0, 1, 2}, wanted = {3, 4, -1};
  storage.write("tokens", ids.data(), 12);
  storage.write("targets", wanted.data(), 12);
  executable.run(Phase::micro);
  std::vector<float> d1(16), d2(16);
  storage.read("d.w1", d1.data(), 64);
  storage.read("d.w2", d2.data(), 64);
  CHECK(d1 == d2);
  CHECK(std::any_of(d1.begin(), d1.end(), [](float v) { return v != 0; }));
}

TEST_CASE("differentiate: a graph without a loss is refused") {
  SmallGraph g;
  g.graph.nodes.pop_back();
  CHECK(message_of([&] { differentiate(g.graph); }) == "differentiate: the graph has no loss");
}

TEST_CASE("differentiate: an op without a gradient is named") {
  SmallGraph g;
  Builder b(g.graph);
  const ValueId y = g.graph.at("norm");
  g.graph.nodes.pop_back();
  const ValueId sum = g.graph.nodes[size_t(b.append(ops::kAdd, {}, {y, y}, {"sum"}))].out[0];
  b.head_loss(sum, g.embed, g.targets, g.loss_and_count, {.chunk = 64});
  CHECK(message_of([&] { differentiate(g.graph); }) == "differentiate: the op 'add' has no gradient");
}

TEST_CASE("differentiate: what the loss does not depend on gets no gradient and no node") {
  SmallGraph g;
  Builder b(g.graph);
  const ValueId unused = b.persistent("unused", {8, 8}, DType::bf16, Role::parameter);
  const Node head_loss = g.graph.nodes.back();
  g.graph.nodes.pop_back();
  b.linear("dead_end", g.graph.at("norm"), unused);
  g.graph.nodes.push_back(head_loss);
  const size_t forward = g.graph.nodes.size();
  differentiate(g.graph);
  CHECK(g.graph.find("d.unused") == kNone);
  CHECK(g.graph.find("d.dead_end") == kNone);
  SmallGraph without;
  const size_t plain = without.graph.nodes.size();
  differentiate(without.graph);
  CHECK(g.graph.nodes.size() - forward == without.graph.nodes.size() - plain);
}
