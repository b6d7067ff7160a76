#include "engine/passes/plan_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/ops/op.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

void find_lives(const Graph& graph, MemoryPlan& plan) {
  plan.values.resize(graph.values.size());
  plan.workspaces.resize(graph.nodes.size());
  for (int i = 0; i < int(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[size_t(i)];
    for (ValueId id : node.out) {
      if (id == kNone || graph.value(id).role != Role::activation) continue;
      Placement& p = plan.values[size_t(graph.storage_of(id))];
      if (p.bytes == 0) p = {0, aligned(graph.value(id).bytes()), i, i};
      p.last = i;
    }
    for (ValueId id : node.in) {
      if (id != kNone && graph.value(id).role == Role::activation)
        plan.values[size_t(graph.storage_of(id))].last = i;
    }
    plan.workspaces[size_t(i)] = {0, aligned(workspace_of(graph, node, plan.device)), i, i};
    plan.constants.push_back(plan.constant_bytes);
    plan.constant_bytes += aligned(constants_of(graph, node));
  }
}

// The lowest offset at which `p` overlaps no placed neighbour in time; neighbours are sorted by offset.
size_t lowest_gap(const Placement& p, const std::vector<const Placement*>& placed) {
  size_t offset = 0;
  for (const Placement* q : placed) {
    if (q->last < p.first || q->first > p.last) continue;
    if (offset + p.bytes <= q->offset) break;
    offset = std::max(offset, q->offset + q->bytes);
  }
  return offset;
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph, DeviceKind device) {
  MemoryPlan plan;
  plan.device = device;
  find_lives(graph, plan);
  std::vector<Placement*> all;
  for (Placement& p : plan.values) {
    if (p.bytes > 0) all.push_back(&p);
  }
  for (Placement& p : plan.workspaces) {
    if (p.bytes > 0) all.push_back(&p);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Placement* a, const Placement* b) { return a->bytes > b->bytes; });
  std::vector<const Placement*> placed;  // sorted by offset
  for (Placement* p : all) {
    p->offset = lowest_gap(*p, placed);
    plan.bytes = std::max(plan.bytes, p->offset + p->bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), p,
                         [](const Placement* a, const Placement* b) { return a->offset < b->offset; }),
        p);
  }
  return plan;
}

namespace {

// Who owns which bytes of the arena: start -> (end, owner).
class Ownership {
 public:
  void take(size_t begin, size_t end, int owner) {
    auto it = owners_.lower_bound(begin);
    if (it != owners_.begin() && std::prev(it)->second.end > begin) --it;
    while (it != owners_.end() && it->first < end) {
      const size_t old_begin = it->first;
      const Range old = it->second;
      it = owners_.erase(it);
      if (old_begin < begin) owners_[old_begin] = {begin, old.owner};
      if (old.end > end) it = owners_.emplace(end, old).first;
    }
    owners_[begin] = {end, owner};
  }

  bool owns(size_t begin, size_t end, int owner) const {
    auto it = owners_.upper_bound(begin);
    if (it == owners_.begin()) return false;
    --it;
    return it->second.owner == owner && it->second.end >= end;
  }

 private:
  struct Range {
    size_t end;
    int owner;
  };
  std::map<size_t, Range> owners_;
};

// Replays nodes over a plan.
class Replay {
 public:
  Replay(const Graph& graph, const MemoryPlan& plan) : graph_(graph), plan_(plan) {}

  void run(Phase phase) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].phase == phase) run(i);
    }
  }

  [[noreturn]] static void fail(const std::string& name, const char* what) {
    throw Error(fmt::format("memory plan: '{}' {}", name, what));
  }

 private:
  void run(size_t i) {
    const Node& node = graph_.nodes[i];
    // A workspace is scratch for this node alone: whatever was there is gone, and nothing owns it afterwards.
    const int scratch = -1 - int(i);
    const size_t workspace = workspace_of(graph_, node, plan_.device);
    if (workspace > 0) take("workspace", plan_.workspaces[i], workspace, scratch);
    for (ValueId id : node.out) {
      if (id == kNone || graph_.value(id).role != Role::activation) continue;
      const Value& v = graph_.value(id);
      if (v.in_place_of == kNone) take(v.name, plan_.values[size_t(id)], v.bytes(), id);
    }
    // Everything the node reads or writes must still be whole after all of the node's storage is taken.
    for (ValueId id : node.in) check_whole(id);
    for (ValueId id : node.out) check_whole(id);
    const size_t at = plan_.workspaces[i].offset;
    if (workspace > 0 && !bytes_.owns(at, at + workspace, scratch)) {
      fail("workspace", "overlaps an output of its node");
    }
  }

  void take(const std::string& name, const Placement& p, size_t size, int owner) {
    if (p.bytes < size || p.offset + size > plan_.bytes || p.offset % kArenaAlign != 0) {
      fail(name, "does not fit");
    }
    bytes_.take(p.offset, p.offset + size, owner);
  }

  void check_whole(ValueId id) const {
    if (id == kNone || graph_.value(id).role != Role::activation) return;
    const ValueId storage = graph_.storage_of(id);
    const Placement& p = plan_.values[size_t(storage)];
    if (!bytes_.owns(p.offset, p.offset + graph_.value(id).bytes(), storage)) {
      fail(graph_.value(id).name, "has lost its bytes to another value while it is in use");
    }
  }

  const Graph& graph_;
  const MemoryPlan& plan_;
  Ownership bytes_;
};

void check_constants(const Graph& graph, const MemoryPlan& plan) {
  size_t end = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const size_t size = constants_of(graph, graph.nodes[i]), begin = plan.constants[i];
    if (size == 0) continue;
    if (begin < end || begin + size > plan.constant_bytes) Replay::fail("constants", "does not fit");
    end = begin + size;
  }
}

}  // namespace

void check_memory_plan(const Graph& graph, const MemoryPlan& plan) {
  check_constants(graph, plan);
  Replay replay(graph, plan);
  for (const Phase phase : {Phase::begin, Phase::micro, Phase::micro, Phase::update}) replay.run(phase);
}

}  // namespace genesis
