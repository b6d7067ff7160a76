#include "engine/passes/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/table.h"
#include "engine/passes/print.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), state_(graph.values.size(), State::absent), made_in_(graph.values.size()) {}

  void run() {
    check_names();
    for (const Node& node : graph_.nodes) check_node(node);
  }

 private:
  enum class State : uint8_t { absent, present, overwritten };

  void check_names() {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      names.push_back(graph_.values[i].name);
      if (graph_.values[i].role != Role::activation && graph_.values[i].role != Role::result) {
        state_[i] = State::present;
      }
    }
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    check(twice == names.end(),
          fmt::format("graph: two values are named '{}'", twice == names.end() ? "" : *twice));
  }

  void fail(const Node& node, const std::string& what) const {
    throw Error(fmt::format("graph: {} in: {}", what, to_string(graph_, node)));
  }

  void check_node(const Node& node) {
    check_op(node);
    check_ids(node);
    if (node.phase < phase_) fail(node, "a node of an earlier phase after a later one");
    phase_ = node.phase;
    for (ValueId id : node.in) {
      if (id == kNone) continue;
      const State s = state_[size_t(id)];
      if (s == State::absent) fail(node, "use of '" + graph_.value(id).name + "' before it is assigned");
      if (s == State::overwritten) {
        fail(node, "use of '" + graph_.value(id).name + "' after it was overwritten");
      }
      // The micro phase runs again and again: its activations lie in the bytes of the other phases' ones.
      if (graph_.value(id).role == Role::activation && made_in_[size_t(id)] != node.phase) {
        fail(node, fmt::format("use of '{}', an activation of phase {}", graph_.value(id).name,
                               name_of(made_in_[size_t(id)])));
      }
    }
    for (ValueId id : node.into) {
      if (graph_.value(id).role == Role::activation) {
        fail(node, "a change to '" + graph_.value(id).name + "', an activation");
      }
      state_[size_t(id)] = State::present;
    }
    check_outputs(node);
  }

  // Nodes are described by their op and the names of their values: these two come first.
  void check_op(const Node& node) const {
    const auto ops = all_ops();
    check(std::find(ops.begin(), ops.end(), node.op) != ops.end(),
          fmt::format("graph: the op '{}' is not listed in engine/ops/table.cpp",
                      node.op ? node.op->name : "(none)"));
  }

  void check_ids(const Node& node) const {
    const auto known = [&](ValueId id) { return id == kNone || graph_.has(id); };
    for (const auto* ids : {&node.in, &node.out}) {
      if (!std::all_of(ids->begin(), ids->end(), known)) fail(node, "a value id out of range");
    }
    for (ValueId id : node.into) {
      if (!graph_.has(id)) fail(node, "a value id out of range");
    }
  }

  void check_outputs(const Node& node) {
    const OpDef& def = *node.op;
    const std::vector<ValueType> types = def.infer(graph_, node);
    if (types.size() != node.out.size()) fail(node, "wrong number of outputs");
    for (size_t i = 0; i < types.size(); ++i) {
      const ValueId id = node.out[i];
      if (id == kNone) continue;
      const Value& v = graph_.value(id);
      if (state_[size_t(id)] != State::absent) fail(node, "second assignment of '" + v.name + "'");
      if (!(v.shape == types[i].shape) || v.dtype != types[i].dtype) {
        fail(node, "wrong type of '" + v.name + "'");
      }
      state_[size_t(id)] = State::present;
      made_in_[size_t(id)] = node.phase;
      // Memory is planned, and the op called, as if what an op does in place were always so.
      const ValueId base = def.in_place == int(i) ? node.in[0] : kNone;
      if (v.in_place_of != base) fail(node, "'" + v.name + "' is in place of the wrong value");
      if (base == kNone) continue;
      if (v.role != Role::activation || graph_.value(base).role != Role::activation) {
        fail(node, "'" + v.name + "' is in place of a value that persists, or persists itself");
      }
      state_[size_t(base)] = State::overwritten;
    }
  }

  const Graph& graph_;
  std::vector<State> state_;
  std::vector<Phase> made_in_;  // of what nodes make
  Phase phase_ = Phase::begin;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace genesis
