#include "engine/graph/graph.h"

#include "engine/ops/matmul.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/table.h"
#include "engine/passes/differentiate.h"
#include "engine/passes/verify.h"
#include "tests/engine/small_graph.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

// What verify says of the small graph once `damage` has been done to it.
template <class Damage>
std::string after(const Damage& damage) {
  SmallGraph g;
  damage(g);
  return message_of([&] { verify(g.graph); });
}

}  // namespace

TEST_CASE("graph: values by name and role") {
  SmallGraph g;
  CHECK(g.graph.at("embed.weight") == g.embed);
  CHECK(g.graph.find("nothing") == kNone);
  CHECK(message_of([&] { g.graph.at("nothing"); }) == "the graph has no value named 'nothing'");
  CHECK(g.graph.with_role(Role::parameter).size() == 8);
  CHECK(g.graph.with_role(Role::input) == std::vector<ValueId>{g.tokens, g.targets, g.positions});
  CHECK(g.graph.value(g.embed).bytes() == 16 * 8 * 2);
  CHECK(g.graph.storage_of(g.graph.at("layers.0.attn.rope")) == g.graph.at("layers.0.attn.qkv"));
  CHECK(g.graph.storage_of(g.embed) == g.embed);
}

TEST_CASE("graph: verify accepts a sound graph") {
  CHECK(after([](SmallGraph&) {}) == "");
}

TEST_CASE("graph: verify refuses ids that no value has, and can still say where") {
  for (const ValueId id : {ValueId(-2), ValueId(1000)}) {
    INFO(id);
    const std::string expected = "graph: a value id out of range in: micro  rmsnorm(";
    CHECK(lacks(after([&](SmallGraph& g) { g.node(ops::kRmsNorm).in[0] = id; }), expected + "#") == "");
    CHECK(lacks(after([&](SmallGraph& g) { g.node(ops::kRmsNorm).out[1] = id; }), expected) == "");
    CHECK(lacks(after([&](SmallGraph& g) { g.node(ops::kHeadLoss).into[0] = id; }),
                "graph: a value id out of range in: micro  head_loss(") == "");
  }
  CHECK(lacks(after([&](SmallGraph& g) { g.node(ops::kHeadLoss).into[0] = kNone; }),
              "a value id out of range") == "");
}

TEST_CASE("graph: verify refuses two values of one name") {
  CHECK(after([](SmallGraph& g) { g.graph.value(g.targets).name = "tokens"; }) ==
        "graph: two values are named 'tokens'");
}

TEST_CASE("graph: verify refuses a use before the assignment, and a second assignment") {
  CHECK(lacks(after([](SmallGraph& g) { std::swap(g.graph.nodes[1], g.graph.nodes[2]); }),
              "use of 'layers.0.attn_norm' before it is assigned in: micro  matmul(") == "");
  CHECK(lacks(after([](SmallGraph& g) { g.graph.nodes.insert(g.graph.nodes.begin() + 1, g.graph.nodes[0]); }),
              "second assignment of 'embed'") == "");
  // A persistent value is there from the start: no node may make it.
  CHECK(lacks(after([](SmallGraph& g) {
                const Value v{"other", {4, 8}, DType::bf16, Role::cache, kNone};
                g.graph.nodes[0].out[0] = g.graph.add_value(v);
              }),
              "second assignment of 'other'") == "");
  // What the host reads after a run is not there before one.
  CHECK(lacks(after([](SmallGraph& g) {
                g.graph.add_value({"result", {4, 8}, DType::bf16, Role::result, kNone});
                g.node(ops::kRmsNorm).in[0] = g.graph.at("result");
              }),
              "use of 'result' before it is assigned") == "");
}

TEST_CASE("graph: verify refuses a use of what was overwritten") {
  CHECK(lacks(after([](SmallGraph& g) { g.node(ops::kAttention).in[0] = g.graph.at("layers.0.attn.qkv"); }),
              "use of 'layers.0.attn.qkv' after it was overwritten in: micro  attention(") == "");
}

TEST_CASE("graph: verify refuses in place what is not, and the other way round") {
  CHECK(
      lacks(after([](SmallGraph& g) { g.graph.value(g.graph.at("layers.0.attn.rope")).in_place_of = kNone; }),
            "'layers.0.attn.rope' is in place of the wrong value") == "");
  CHECK(lacks(after([](SmallGraph& g) {
                g.graph.value(g.graph.at("layers.0.ffn_norm")).in_place_of = g.graph.at("layers.0.attn.out");
              }),
              "'layers.0.ffn_norm' is in place of the wrong value") == "");
  CHECK(
      lacks(after([](SmallGraph& g) { g.graph.value(g.graph.at("layers.0.attn.rope")).role = Role::result; }),
            "is in place of a value that persists, or persists itself") == "");
}

TEST_CASE("graph: verify refuses an activation of one phase in another") {
  CHECK(lacks(after([](SmallGraph& g) {
                Builder(g.graph, Phase::update).add("late", g.graph.at("norm"), g.graph.at("norm"));
              }),
              "use of 'norm', an activation of phase micro in: update add(norm, norm)") == "");
}

TEST_CASE("graph: verify refuses a change to an activation") {
  CHECK(lacks(after([](SmallGraph& g) {
                const ValueId v = g.graph.add_value({"sum", {2}, DType::f32, Role::activation, kNone});
                g.node(ops::kHeadLoss).into[0] = v;
              }),
              "a change to 'sum', an activation") == "");
}

TEST_CASE("graph: verify refuses phases out of order") {
  CHECK(lacks(after([](SmallGraph& g) { g.graph.nodes[3].phase = Phase::begin; }),
              "a node of an earlier phase after a later one") == "");
}

TEST_CASE("graph: verify refuses outputs of a wrong number, shape or type") {
  CHECK(lacks(after([](SmallGraph& g) { g.node(ops::kAttention).out.pop_back(); }),
              "wrong number of outputs") == "");
  CHECK(lacks(after([](SmallGraph& g) {
                g.graph.value(g.graph.at("embed")).shape = {4, 9};
              }),
              "wrong type of 'embed'") == "");
  CHECK(lacks(after([](SmallGraph& g) { g.graph.value(g.graph.at("norm")).dtype = DType::f32; }),
              "wrong type of 'norm'") == "");
}

TEST_CASE("graph: verify refuses inputs and sums that do not fit their op") {
  const auto reshaped = [](const char* name, Shape shape) {
    return after([&](SmallGraph& g) { g.graph.value(g.graph.at(name)).shape = shape; });
  };
  CHECK(lacks(reshaped("norm.weight", {9}),
              "rmsnorm: expected x [rows, D] and a weight [D]; found "
              "layers.0.ffn_norm.h:bf16[4, 8]") == "");
  CHECK(lacks(reshaped("attn.qkv.weight", {32, 9}), "matmul: expected inner sizes that agree") == "");
  CHECK(lacks(reshaped("attn.qkv.weight", {40, 8}), "in: micro  matmul(") == "");
  CHECK(lacks(reshaped("embed.weight", {16}), "embedding: expected tokens i32 and a table [V, D]") == "");
  CHECK(lacks(reshaped("positions", {5}), "rope: expected a position i32 a row") == "");
  CHECK(lacks(reshaped("targets", {5}), "head_loss: expected a target i32 a row") == "");
  CHECK(lacks(reshaped("loss_and_count", {3}),
              "head_loss: expected to change a f32[4]; found loss_and_count:f32[3]") == "");
  CHECK(lacks(after([](SmallGraph& g) { g.node(ops::kHeadLoss).into.clear(); }),
              "head_loss: expected to change a f32[4]; found nothing") == "");
  CHECK(lacks(after([](SmallGraph& g) { g.node(ops::kRmsNorm).in[2] = kNone; }),
              "rmsnorm: input 2 is missing") == "");
  CHECK(lacks(after([](SmallGraph& g) { g.node(ops::kRmsNorm).in.pop_back(); }),
              "rmsnorm: input 2 is missing") == "");
  CHECK(lacks(after([](SmallGraph& g) { attrs_of<AttentionAttrs>(g.node(ops::kAttention)).KV = 3; }),
              "attention: expected H a multiple of KV") == "");
  CHECK(lacks(after([](SmallGraph& g) {
                attrs_of<AttentionAttrs>(g.node(ops::kAttention)).document_mask = true;
              }),
              "attention: input 1 is missing") == "");
}

TEST_CASE("ops: each has a name of its own and what no op can do without") {
  std::vector<std::string> names;
  for (const OpDef* op : all_ops()) {
    CHECK(op->infer != nullptr);
    CHECK(op->cost != nullptr);
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) CHECK(op->on(kind).prepare != nullptr);
    for (const std::string& other : names) CHECK(other != op->name);
    names.push_back(op->name);
  }
}

TEST_CASE("graph: verify refuses an op that the table lacks, and a node without one") {
  OpDef stranger = ops::kRmsNorm;
  stranger.name = "stranger";
  CHECK(after([&](SmallGraph& g) { g.node(ops::kRmsNorm).op = &stranger; }) ==
        "graph: the op 'stranger' is not listed in engine/ops/table.cpp");
  CHECK(after([](SmallGraph& g) { g.node(ops::kRmsNorm).op = nullptr; }) ==
        "graph: the op '(none)' is not listed in engine/ops/table.cpp");
}

TEST_CASE("graph: verify refuses attributes of another op") {
  CHECK(lacks(after([](SmallGraph& g) { g.node(ops::kRope).attrs = AttentionAttrs{}; }),
              "a node has the attributes of its op") == "");
}

TEST_CASE("ops: costs count every multiplication and addition of the products") {
  SmallGraph g;
  const auto flops = [&](const OpDef& op) { return cost_of(g.graph, g.node(op)).flops; };
  CHECK(flops(ops::kMatMul) == 2. * 4 * 8 * 32);        // 4 tokens through qkv [32, 8]
  CHECK(flops(ops::kAttention) == 2. * 2 * 4 * 4 * 8);  // 2 heads, 2 products of 4 x 4 x 8, half of it masked
  CHECK(flops(ops::kHeadLoss) == 2. * 4 * 16 * 8);
  differentiate(g.graph);
  CHECK(flops(ops::kHeadLoss) == 3 * 2. * 4 * 16 * 8);
  CHECK(flops(ops::kAttentionBackward) == 2 * flops(ops::kAttention));
  // A matrix and its gradient each once: x, weight and y of the first product.
  CHECK(cost_of(g.graph, g.node(ops::kMatMul)).kernels.at(0).bytes == 2. * (4 * 8 + 32 * 8 + 4 * 32));
}
