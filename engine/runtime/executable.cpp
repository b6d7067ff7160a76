#include "engine/runtime/executable.h"

#include <chrono>

#include "engine/passes/print.h"
#include "engine/passes/verify.h"
#include "kernels/common/error.h"

namespace genesis {

Executable::Executable(Graph graph, Storage& storage)
    : graph_(std::move(graph)), storage_(storage), memory_(plan_memory(graph_, storage.device().kind())) {
  verify(graph_);
  check_memory_plan(graph_, memory_);
  storage_.bind(graph_.values);
  storage_.reserve_arena(memory_.bytes);
  if (memory_.constant_bytes > 0) constants_ = DeviceBuffer(storage_.device(), memory_.constant_bytes);
}

Prepare Executable::prepare_of(const Node& node) const {
  const Prepare prepare = node.op->on(memory_.device).prepare;
  require(prepare != nullptr, "every op runs on every kind of device");
  return prepare;
}

void* Executable::address(ValueId id) const {
  if (id == kNone) return nullptr;
  const Value& v = graph_.value(id);
  if (v.role != Role::activation) return storage_.find(v.name)->data;
  return static_cast<char*>(storage_.arena()) + memory_.values[size_t(graph_.storage_of(id))].offset;
}

namespace {

// Runs a body that belongs to a node, which an Error will name. (On a GPU an earlier node may be to blame.)
template <class Body>
auto for_node(const Graph& graph, const Node& node, const Body& body) {
  try {
    return body();
  } catch (const Error& e) {
    throw Error(std::string(e.what()) + "; at the node " + to_string(graph, node));
  }
}

}  // namespace

void Executable::prepare() {
  if (arena_ != nullptr && arena_ == storage_.arena()) return;
  for (PhaseSteps& phase : phases_) phase = {};
  arena_ = storage_.arena();
  const auto addresses = [&](const std::vector<ValueId>& ids) {
    std::vector<void*> p;
    for (ValueId id : ids) p.push_back(address(id));
    return p;
  };
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    const Placement& scratch = memory_.workspaces[i];
    require(workspace_of(graph_, node, memory_.device) <= scratch.bytes,
            "nodes are prepared for as many threads as their memory was planned for");
    void* workspace = scratch.bytes ? static_cast<char*>(arena_) + scratch.offset : nullptr;
    const BoundNode bound{.graph = graph_,
                          .node = node,
                          .device = storage_.device(),
                          .in = addresses(node.in),
                          .out = addresses(node.out),
                          .into = addresses(node.into),
                          .workspace = workspace,
                          .constants = static_cast<char*>(constants_.data()) + memory_.constants[i]};
    const Run run = for_node(graph_, node, [&] { return prepare_of(node)(bound); });
    phases_[size_t(node.phase)].steps.push_back({run, NodeId(i)});
  }
}

void Executable::run(Phase phase) {
  prepare();
  Device& device = storage_.device();
  PhaseSteps& now = phases_[size_t(phase)];
  device.begin_work(name_of(phase));
  // Timed nodes run one by one.
  if (!device.records() || !now.has_run || now.steps.empty() || !seconds_.empty()) {
    run_steps(now.steps);
    now.has_run = true;
    return;
  }
  if (!now.recorded) now.recorded = record(now.steps);
  now.recorded->launch();
}

std::unique_ptr<DeviceGraph> Executable::record(const std::vector<Step>& steps) {
  Device& device = storage_.device();
  device.begin_recording();
  try {
    run_steps(steps);
  } catch (const Error&) {
    try {
      device.end_recording();
    } catch (const Error&) {  // says no more than that something was refused
    }
    throw;
  }
  return device.end_recording();
}

void Executable::run_steps(const std::vector<Step>& steps) {
  const Stream stream = storage_.device().stream();
  using Clock = std::chrono::steady_clock;
  for (const Step& step : steps) {
    const auto start = seconds_.empty() ? Clock::time_point() : Clock::now();
    for_node(graph_, graph_.nodes[size_t(step.node)], [&] { step.run(stream); });
    if (seconds_.empty()) continue;
    seconds_[size_t(step.node)] += std::chrono::duration<double>(Clock::now() - start).count();
  }
}

void Executable::time_nodes(bool on) { seconds_.assign(on ? graph_.nodes.size() : 0, 0.); }

}  // namespace genesis
