#include "engine/passes/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/graph/builder.h"
#include "engine/ops/rmsnorm.h"
#include "engine/passes/plan_memory.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

using ValueSet = std::set<ValueId>;

// What the rewriting of one graph needs to know of it.
struct Forward {
  explicit Forward(const Graph& g) : graph(g), producer(g.values.size(), kNone) {
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      const Node& node = g.nodes[i];
      for (ValueId id : node.out) {
        if (id != kNone && !node.backward) producer[size_t(id)] = NodeId(i);
      }
    }
    ValueSet seen;
    for (const Node& node : g.nodes) {
      if (!node.backward) continue;
      for (ValueId id : node.in) {
        if (id == kNone || g.value(id).role != Role::activation || producer[size_t(id)] == kNone) continue;
        if (made_by_loss(id)) continue;
        if (seen.insert(id).second) saved.push_back(id);
      }
    }
    std::sort(saved.begin(), saved.end());
  }

  // A loss makes its input's gradient in the forward pass: that is no value to recompute.
  bool made_by_loss(ValueId v) const { return graph.nodes[size_t(producer[size_t(v)])].op->loss; }
  int execution(ValueId v) const { return graph.nodes[size_t(producer[size_t(v)])].execution; }
  // The first value an execution saves: its input, as its first norm has summed it.
  bool is_block_input(ValueId v) const {
    const NodeId p = producer[size_t(v)];
    const Node& node = graph.nodes[size_t(p)];
    if (node.op != &ops::kRmsNorm || node.out[0] != v) return false;
    return p == 0 || graph.nodes[size_t(p) - 1].execution != node.execution;
  }

  const Graph& graph;
  std::vector<NodeId> producer;  // by value, kNone for what no forward node makes
  std::vector<ValueId> saved;    // forward activations that the backward pass uses
};

// Writes the graph anew with replays of everything saved that is not kept.
class Rewriter {
 public:
  Rewriter(const Forward& forward, const ValueSet& kept)
      : forward_(forward), kept_(kept), result_(forward.graph) {
    result_.nodes.clear();
  }

  Graph run() {
    for (const Node& node : forward_.graph.nodes) {
      Node copy = node;
      if (node.backward) {
        for (ValueId& id : copy.in) id = available(id);
      }
      result_.nodes.push_back(std::move(copy));
    }
    return std::move(result_);
  }

 private:
  // The value to read in the backward pass for a forward value.
  ValueId available(ValueId id) {
    if (id == kNone || forward_.graph.value(id).role != Role::activation) return id;
    if (size_t(id) >= forward_.producer.size() || forward_.producer[size_t(id)] == kNone) return id;
    if (kept_.count(id) || forward_.execution(id) == kNone) return id;
    if (forward_.made_by_loss(id)) return id;
    const auto done = replayed_.find(id);
    return done != replayed_.end() ? done->second : replay(id);
  }

  ValueId replay(ValueId id) {
    const Node& original = forward_.graph.nodes[size_t(forward_.producer[size_t(id)])];
    Node node = original;
    node.backward = node.recompute = true;
    const OpDef& def = *node.op;
    if (def.replay_from) {
      for (ValueId out : original.out) {
        if (out != kNone && out != id && kept_.count(out) && def.replay_from(node, out)) break;
      }
    }
    for (ValueId& in : node.in) in = available(in);
    for (ValueId& out : node.out) {
      if (out == kNone) continue;
      Value v = forward_.graph.value(out);
      v.name = "re." + v.name;
      if (v.in_place_of != kNone) v.in_place_of = node.in[0];
      const ValueId again = result_.add_value(std::move(v));
      if (!kept_.count(out)) replayed_[out] = again;
      out = again;
    }
    result_.nodes.push_back(node);
    return replayed_.at(id);
  }

  const Forward& forward_;
  const ValueSet& kept_;
  Graph result_;
  std::map<ValueId, ValueId> replayed_;
};

Graph rewrite(const Forward& forward, const ValueSet& kept) { return Rewriter(forward, kept).run(); }

double replay_flops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) {
    if (node.recompute) flops += cost_of(graph, node).flops;
  }
  return flops;
}

// Time of all replays on a machine that does 100 operations in the time it moves a byte: between a CPU's
// ratio (about 20) and a GPU's (about 180). Only the order of choices hangs on it.
double replay_time(const Graph& graph) {
  double time = 0;
  for (const Node& node : graph.nodes) {
    if (!node.recompute) continue;
    const Cost c = cost_of(graph, node);
    time += c.bytes + c.flops / 100;
  }
  return time;
}

// The same value of every execution, as in "attn.qkv": they are alike, so choices are made for all together.
std::string class_of(const Forward& forward, ValueId id) {
  const std::string& name = forward.graph.value(id).name;
  const size_t dot = name.find('.', name.find('.') + 1);
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

// Saved values inside executions in the order in which they are given up: class by class, always the class
// that adds the least time for a byte saved, given those already gone. Block inputs are never given up.
std::vector<ValueId> order_of_giving_up(const Forward& forward, const ValueSet& all) {
  std::map<std::string, std::vector<ValueId>> classes;
  for (ValueId id : all) {
    if (forward.execution(id) != kNone && !forward.is_block_input(id))
      classes[class_of(forward, id)].push_back(id);
  }
  std::vector<ValueId> order;
  ValueSet kept = all;
  double time = 0;
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
      const double total = replay_time(rewrite(forward, without));
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

ValueSet keep_for_budget(const Forward& forward, const ValueSet& all, size_t budget) {
  const auto arena = [&](const ValueSet& kept) { return plan_memory(rewrite(forward, kept)).bytes; };
  if (arena(all) <= budget) return all;
  const std::vector<ValueId> order = order_of_giving_up(forward, all);
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

RecomputePlan recompute(Graph& graph, RecomputePolicy policy, size_t budget) {
  const Forward forward(graph);
  const ValueSet all(forward.saved.begin(), forward.saved.end());
  ValueSet kept = all;
  if (policy == RecomputePolicy::block) {
    std::erase_if(kept,
                  [&](ValueId id) { return forward.execution(id) != kNone && !forward.is_block_input(id); });
  } else if (policy == RecomputePolicy::automatic) {
    kept = keep_for_budget(forward, all, budget);
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
