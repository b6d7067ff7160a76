#include "engine/passes/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/ops/op.h"
#include "engine/passes/plan_memory.h"
#include "engine/passes/verify.h"
#include "engine/time/graph_time.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

using ValueSet = std::set<ValueId>;

// A backward node that can give a forward value again, and the nodes before it that use the value: they would wait.
struct Giver {
  NodeId node = kNone;
  std::vector<NodeId> waiting;
};

// What the rewriting of one graph needs to know of it.
struct Forward {
  explicit Forward(const Graph& g) : graph(g), producer(g.values.size(), kNone) {
    std::map<int, int> nodes_in;  // an execution, so far
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      const Node& node = g.nodes[i];
      position.push_back(node.backward ? 0 : nodes_in[node.execution]++);
      // A loss makes its input's gradient in the forward pass: that is no value to recompute.
      if (node.backward || node.op->loss) continue;
      for (ValueId id : node.out) {
        if (id != kNone) producer[size_t(id)] = NodeId(i);
      }
    }
    ValueSet seen;
    for (const Node& node : g.nodes) {
      if (!node.backward) continue;
      for (ValueId id : node.in) {
        if (id == kNone || g.value(id).role != Role::activation || producer[size_t(id)] == kNone) continue;
        if (seen.insert(id).second) saved.push_back(id);
      }
    }
    std::sort(saved.begin(), saved.end());
    for (ValueId id : saved) {
      const Giver giver = giver_of(id);
      if (giver.node != kNone) givers[id] = giver;
    }
  }

  int execution(ValueId v) const { return graph.nodes[size_t(producer[size_t(v)])].execution; }
  // The first value an execution saves, from which its first node can be replayed: its input, as its first norm
  // has summed it.
  bool is_block_input(ValueId v) const {
    const NodeId p = producer[size_t(v)];
    Node first = graph.nodes[size_t(p)];
    return position[size_t(p)] == 0 && first.op->replay_from && first.op->replay_from(first, v);
  }
  // The same value of every execution: they are alike, so choices are made for all together.
  using Class = std::pair<int, int>;  // the producer's place in its execution, which of its outputs
  Class class_of(ValueId v) const {
    const NodeId p = producer[size_t(v)];
    const std::vector<ValueId>& out = graph.nodes[size_t(p)].out;
    return {position[size_t(p)], int(std::find(out.begin(), out.end(), v) - out.begin())};
  }

  const Graph& graph;
  std::vector<NodeId> producer;     // by value, kNone for what no forward node makes
  std::vector<int> position;        // by node: how many of its execution come before it in the forward pass
  std::vector<ValueId> saved;       // forward activations that the backward pass uses
  std::map<ValueId, Giver> givers;  // of those of them that a backward node can give again

 private:
  const Node& node(NodeId i) const { return graph.nodes[size_t(i)]; }
  bool uses(const Node& n, ValueId storage) const {
    return std::any_of(n.in.begin(), n.in.end(),
                       [&](ValueId in) { return in != kNone && graph.storage_of(in) == storage; });
  }

  Giver giver_of(ValueId id) const {
    const Node& forward = node(producer[size_t(id)]);
    Giver giver;
    if (!forward.op->given_again) return giver;
    for (NodeId i = 0; i < NodeId(graph.nodes.size()); ++i) {
      if (node(i).backward && forward.op->given_again(forward, node(i)) == id) giver.node = i;
    }
    if (giver.node == kNone) return giver;
    for (NodeId i = 0; i < giver.node; ++i) {
      if (!node(i).backward || !uses(node(i), graph.storage_of(id))) continue;
      if (!can_wait(i, giver.node)) return {};
      giver.waiting.push_back(i);
    }
    // The value takes the place of the giver's first input, which nobody may want any more.
    const ValueId place = node(giver.node).in[0];
    if (graph.value(place).role != Role::activation) return {};
    for (NodeId i = 0; i < NodeId(graph.nodes.size()); ++i) {
      const bool later = i > giver.node || std::count(giver.waiting.begin(), giver.waiting.end(), i) > 0;
      if (later && uses(node(i), graph.storage_of(place))) return {};
    }
    return giver;
  }

  // Whether node i may run right after node `until`: it gives nothing but additions to gradients that no node between
  // touches, and its inputs are still whole then.
  bool can_wait(NodeId i, NodeId until) const {
    const Node& waiting = node(i);
    if (std::any_of(waiting.out.begin(), waiting.out.end(), [](ValueId out) { return out != kNone; }))
      return false;
    for (ValueId id : waiting.into) {
      if (graph.value(id).role != Role::gradient) return false;
    }
    for (NodeId j = i + 1; j <= until; ++j) {
      for (ValueId id : waiting.into) {
        if (uses(node(j), id) || std::count(node(j).into.begin(), node(j).into.end(), id) > 0) return false;
      }
      for (ValueId out : node(j).out) {
        if (out == kNone || graph.value(out).in_place_of == kNone) continue;
        if (uses(waiting, graph.storage_of(out))) return false;
      }
    }
    return true;
  }
};

// Writes the graph anew without what is saved and not kept: a backward node gives it again if nothing else needs it
// before, else it is replayed.
class Rewriter {
 public:
  Rewriter(const Forward& forward, const ValueSet& kept)
      : forward_(forward), kept_(kept), result_(forward.graph) {
    result_.nodes.clear();
  }

  Graph run() {
    choose_givers();
    std::set<NodeId> waiting;
    for (const auto& [node, id] : given_by_) {
      const std::vector<NodeId>& nodes = forward_.givers.at(id).waiting;
      waiting.insert(nodes.begin(), nodes.end());
    }
    for (NodeId i = 0; i < NodeId(forward_.graph.nodes.size()); ++i) {
      if (waiting.count(i)) continue;
      write(i);
      const auto given = given_by_.find(i);
      if (given == given_by_.end()) continue;
      give_again(given->second);
      for (NodeId w : forward_.givers.at(given->second).waiting) write(w);
    }
    return std::move(result_);
  }

 private:
  const Node& original(NodeId i) const { return forward_.graph.nodes[size_t(i)]; }

  // Whether the backward pass has no such value unless it is made again.
  bool is_gone(ValueId id) const {
    if (id == kNone || forward_.graph.value(id).role != Role::activation) return false;
    if (size_t(id) >= forward_.producer.size() || forward_.producer[size_t(id)] == kNone) return false;
    return !kept_.count(id) && forward_.execution(id) != kNone;
  }

  // What is gone, can be given again and is not made by a replay anyway is given again.
  void choose_givers() {
    std::set<NodeId> replayed;
    for (const Node& node : forward_.graph.nodes) {
      if (!node.backward) continue;
      for (ValueId id : node.in) {
        if (!forward_.givers.count(id)) note_replays(id, replayed);
      }
    }
    for (const auto& [id, giver] : forward_.givers) {
      if (is_gone(id) && !replayed.count(forward_.producer[size_t(id)])) given_by_[giver.node] = id;
    }
  }

  // Adds the nodes that a replay of the value runs.
  void note_replays(ValueId id, std::set<NodeId>& replayed) const {
    if (!is_gone(id) || !replayed.insert(forward_.producer[size_t(id)]).second) return;
    for (ValueId in : replay_of(id).in) note_replays(in, replayed);
  }

  void write(NodeId i) {
    Node copy = original(i);
    if (copy.backward) {
      for (ValueId& id : copy.in) id = available(id);
    }
    result_.nodes.push_back(std::move(copy));
  }

  // The last node written gives the value too.
  void give_again(ValueId id) {
    Node& node = result_.nodes.back();
    Value v = again(id);
    v.in_place_of = node.in[0];
    node.out.back() = replayed_[id] = result_.add_value(std::move(v));
  }

  Value again(ValueId id) const {
    Value v = forward_.graph.value(id);
    v.name = "re." + v.name;
    return v;
  }

  // The value to read in the backward pass for a forward value.
  ValueId available(ValueId id) {
    if (!is_gone(id)) return id;
    const auto done = replayed_.find(id);
    return done != replayed_.end() ? done->second : replay(id);
  }

  // The node that makes the value again, from the forward pass's values.
  Node replay_of(ValueId id) const {
    Node node = original(forward_.producer[size_t(id)]);
    const std::vector<ValueId> outputs = node.out;
    node.backward = node.recompute = true;
    if (node.op->replay_from) {
      for (ValueId out : outputs) {
        if (out != kNone && out != id && kept_.count(out) && node.op->replay_from(node, out)) break;
      }
    }
    return node;
  }

  ValueId replay(ValueId id) {
    Node node = replay_of(id);
    for (ValueId& in : node.in) in = available(in);
    for (ValueId& out : node.out) {
      if (out == kNone) continue;
      Value v = again(out);
      if (v.in_place_of != kNone) v.in_place_of = node.in[0];
      const ValueId made = result_.add_value(std::move(v));
      if (!kept_.count(out)) replayed_[out] = made;
      out = made;
    }
    result_.nodes.push_back(node);
    return replayed_.at(id);
  }

  const Forward& forward_;
  const ValueSet& kept_;
  Graph result_;
  std::map<NodeId, ValueId> given_by_;   // what backward nodes give again
  std::map<ValueId, ValueId> replayed_;  // or have given again
};

Graph rewrite(const Forward& forward, const ValueSet& kept) { return Rewriter(forward, kept).run(); }

double replay_flops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) {
    if (node.recompute) flops += cost_of(graph, node).flops;
  }
  return flops;
}

double backward_time(const Graph& graph, const Rates& rates) {
  double time = 0;
  for (const Node& node : graph.nodes) {
    if (node.backward) time += seconds_of(graph, node, rates);
  }
  return time;
}

// Saved values inside executions in the order in which they are given up: class by class, always the class
// that adds the least time for a byte saved, given those already gone. Block inputs are never given up.
std::vector<ValueId> order_of_giving_up(const Forward& forward, const ValueSet& all, const Rates& rates) {
  std::map<Forward::Class, std::vector<ValueId>> classes;
  for (ValueId id : all) {
    if (forward.execution(id) != kNone && !forward.is_block_input(id))
      classes[forward.class_of(id)].push_back(id);
  }
  std::vector<ValueId> order;
  ValueSet kept = all;
  double time = backward_time(rewrite(forward, all), rates);
  while (!classes.empty()) {
    auto best = classes.end();
    double best_price = 0, best_time = 0;
    for (auto it = classes.begin(); it != classes.end(); ++it) {
      ValueSet without = kept;
      double bytes = 0;
      for (ValueId id : it->second) {
        without.erase(id);
        bytes += double(forward.graph.value(id).bytes());
      }
      const double total = backward_time(rewrite(forward, without), rates);
      const double price = (total - time) / bytes;
      if (best == classes.end() || price < best_price) best = it, best_price = price, best_time = total;
    }
    for (ValueId id : best->second) kept.erase(id);
    order.insert(order.end(), best->second.begin(), best->second.end());
    time = best_time;
    classes.erase(best);
  }
  return order;
}

ValueSet keep_for_budget(const Forward& forward, const ValueSet& all, DeviceKind device, size_t budget,
                         const Rates& rates) {
  const auto arena = [&](const ValueSet& kept) { return plan_memory(rewrite(forward, kept), device).bytes; };
  if (arena(all) <= budget) return all;
  const std::vector<ValueId> order = order_of_giving_up(forward, all, rates);
  const auto kept_after = [&](size_t given_up) {
    ValueSet kept = all;
    for (size_t i = 0; i < given_up; ++i) kept.erase(order[i]);
    return kept;
  };
  size_t too_few = 0, enough = order.size();
  const size_t least = arena(kept_after(enough));
  check(least <= budget,
        fmt::format(
            "train.memory_budget leaves {:.1f} MiB for activations, but even with everything recomputed "
            "they need {:.1f} MiB: raise the budget or lower train.micro_batch",
            double(budget) / (1 << 20), double(least) / (1 << 20)));
  while (enough - too_few > 1) {
    const size_t middle = (too_few + enough) / 2;
    (arena(kept_after(middle)) <= budget ? enough : too_few) = middle;
  }
  return kept_after(enough);
}

}  // namespace

RecomputePlan recompute(Graph& graph, RecomputePolicy policy, DeviceKind device, const Rates& rates,
                        size_t budget) {
  const Forward forward(graph);
  const ValueSet all(forward.saved.begin(), forward.saved.end());
  ValueSet kept = all;
  if (policy == RecomputePolicy::block) {
    std::erase_if(kept,
                  [&](ValueId id) { return forward.execution(id) != kNone && !forward.is_block_input(id); });
  } else if (policy == RecomputePolicy::automatic) {
    kept = keep_for_budget(forward, all, device, budget, rates);
  }
  RecomputePlan plan;
  for (ValueId id : forward.saved) (kept.count(id) ? plan.kept : plan.recomputed).push_back(id);
  Graph rewritten = rewrite(forward, kept);
  plan.flops = replay_flops(rewritten);
  graph = std::move(rewritten);
  verify(graph);
  return plan;
}

}  // namespace genesis
