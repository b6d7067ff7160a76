#include "apps/train/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/device.h"
#include "apps/train/micro_batches.h"
#include "apps/train/time_report.h"
#include "apps/train/training_graph.h"
#include "engine/ops/op.h"
#include "engine/passes/plan_memory.h"
#include "io/format.h"
#include "kernels/common/error.h"
#include "model/executions.h"
#include "model/parameters.h"

namespace genesis {
namespace {

std::string row(const std::string& what, const std::string& figure, const std::string& note = "") {
  return note.empty() ? fmt::format("  {:<30}{:>18}\n", what, figure)
                      : fmt::format("  {:<30}{:>18}   {}\n", what, figure, note);
}

// 1234567 -> 1,234,567
std::string exact(int64_t n) {
  const std::string digits = std::to_string(n);
  std::string s;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) s += ',';
    s += digits[i];
  }
  return s;
}

std::string parameter_rows(const Config::Model& model) {
  std::map<ParameterGroup, int64_t> groups;
  for (const Parameter& p : parameters(model)) groups[p.group] += p.shape.elements();
  std::string s = "parameters\n";
  for (const auto& [group, count] : groups) s += row(name_of(group), exact(count));
  return s + row("total", exact(parameter_count(model)));
}

std::string arithmetic(const Config& config, const Graph& graph) {
  double forward = 0, backward = 0, again = 0, update = 0;
  for (const Node& node : graph.nodes) {
    const Cost cost = cost_of(graph, node);
    double& own = node.phase != Phase::micro ? update
                  : node.recompute           ? again
                  : node.backward            ? backward
                                             : forward;
    own += cost.flops - cost.backward_flops;
    backward += cost.backward_flops;
  }
  const double tokens = double(config.train.micro_batch * config.data.sequence_length);
  const auto per_token = [&](double flops) { return format_count(flops / tokens); };
  // Once for all micro-steps of a step.
  const double share = update / double(config.train.batch_size / config.train.micro_batch);
  std::string s = "FLOPs a token\n";
  s += row("forward", per_token(forward));
  s += row("backward", per_token(backward));
  s += row("recompute", per_token(again));
  s += row("optimizer", per_token(share), fmt::format("{} a step", format_count(update)));
  s += row("total", per_token(forward + backward + again + share),
           fmt::format("{} of it the model's", per_token(forward + backward)));
  s += "tokens\n";
  s += row("a micro-step", exact(config.train.micro_batch * config.data.sequence_length));
  s += row("a step", exact(config.train.batch_size * config.data.sequence_length),
           fmt::format("micro-steps: {}", config.train.batch_size / config.train.micro_batch));
  s += row("the run", exact(config.train.steps * config.train.batch_size * config.data.sequence_length),
           fmt::format("steps: {}", exact(config.train.steps)));
  return s;
}

// Activations and workspaces: what the arena holds at most.
struct ArenaUse {
  size_t bytes = 0;      // the arena
  size_t workspace = 0;  // the largest of one node, part of it
};

ArenaUse arena_of(const Graph& graph, DeviceKind device) {
  const MemoryPlan plan = plan_memory(graph, device);
  ArenaUse use{plan.bytes, 0};
  for (const Placement& p : plan.workspaces) use.workspace = std::max(use.workspace, p.bytes);
  return use;
}

// What is reported on: the config's graph or, where none fits that recomputes as it says, that of another choice.
struct Planned {
  TrainingGraph training;
  Config::Recompute recompute;
  std::string refusal = {};  // why the config's own does not fit
};

Planned plan(const Config& config, const Target& target) {
  const Config::Recompute asked = config.train.recompute;
  if (asked != Config::Recompute::automatic) return {build_training_graph(config, target), asked};
  try {
    return {build_training_graph(config, target), asked};
  } catch (const Error& error) {
    Config other = config;
    other.train.recompute = Config::Recompute::block;
    return {build_training_graph(other, target), other.train.recompute, error.what()};
  }
}

// What a plan is for: the target, and where its memory comes from, in words.
struct Place {
  Target target;
  std::string memory;
};

Place place_of(const Config& config, const Target& target, size_t device_memory, const std::string& device) {
  return {target, config.train.memory_budget > 0
                      ? "train.memory_budget"
                      : fmt::format("nine tenths of {}'s {}", device, format_bytes(double(device_memory)))};
}

std::string memory(const Config& config, const Place& place, const Planned& planned) {
  const Target& target = place.target;
  const Graph& graph = planned.training.graph;
  const auto bytes = [](size_t n) { return format_bytes(double(n)); };
  std::string s = "memory\n";
  s += row("planned for", bytes(target.memory), place.memory);
  s += row("parameters", bytes(bytes_of(graph, Role::parameter)), name_of(target.dtype));
  s += row("fp32 masters", bytes(bytes_of(graph, Role::master)));
  s += row("gradients", bytes(bytes_of(graph, Role::gradient)));
  s += row("optimizer", bytes(bytes_of(graph, Role::moment)));
  const ArenaUse arena = arena_of(graph, target.device);
  for (const auto choice :
       {Config::Recompute::none, Config::Recompute::block, Config::Recompute::automatic}) {
    Config other = config;
    other.train.recompute = choice;
    std::string figure;
    try {
      figure = bytes(choice == planned.recompute
                         ? arena.bytes
                         : arena_of(build_training_graph(other, target).graph, target.device).bytes);
    } catch (const Error&) {
      figure = "over the budget";
    }
    s += row(fmt::format("activations, recompute {}", name_of(choice)), figure,
             choice == config.train.recompute ? "<- this config" : "");
  }
  s += row("workspace", bytes(arena.workspace), "the largest, inside the activations' arena");
  const size_t peak = persistent_bytes(graph) + arena.bytes;
  const std::string over =
      peak > target.memory ? fmt::format(": DOES NOT FIT, {} too much", bytes(peak - target.memory)) : "";
  const std::string of =
      planned.refusal.empty() ? "" : fmt::format(", recompute {}", name_of(planned.recompute));
  s += row("peak" + of, bytes(peak), fmt::format("of {}{}", bytes(target.memory), over));
  return s;
}

std::string report(const Config& config, const Place& place, const Planned& planned) {
  const TrainingGraph& training = planned.training;
  const auto runs = executions(config.model, trained_recurrence(config.model)).size();
  std::string s = fmt::format("{} stored layers, {} executions\n", config.model.layers, runs);
  s += parameter_rows(config.model);
  s += arithmetic(config, training.graph);
  s += memory(config, place, planned);
  s += "recompute\n";
  s += row("values kept", exact(int64_t(training.recompute.kept.size())));
  s += row("values recomputed", exact(int64_t(training.recompute.recomputed.size())));
  s += "checkpoint\n";
  const Role trained_role = place.target.dtype == DType::f32 ? Role::parameter : Role::master;
  const size_t trained = bytes_of(training.graph, trained_role);
  s += row("size", format_bytes(double(trained + bytes_of(training.graph, Role::moment))));
  if (!planned.refusal.empty()) s += "does not fit: " + planned.refusal + "\n";
  return s;
}

std::string micro_batch_rows(const Config& config, const std::vector<MicroBatch>& tried) {
  const MicroBatch* best = best_of(tried);
  std::string s =
      fmt::format("{:<28}{:>12}{:>22}{:>12}\n", "micro-batch", "peak", "recompute, FLOPs", "tokens/s");
  for (const MicroBatch& m : tried) {
    const std::string peak = m.peak == 0 ? "" : format_bytes(double(m.peak));
    const bool own = m.size == config.train.micro_batch;
    std::string line = fmt::format("  {:<26}{:>12}", m.size, peak);
    line += m.fits ? fmt::format("{:>22}{:>12.0f}", format_count(m.again), m.tokens_per_second)
                   : fmt::format("{:>34}", "does not fit");
    s += fmt::format("{}{}{}\n", line, own ? "   <- this config" : "", &m == best ? "   <- best" : "");
  }
  return s;
}

}  // namespace

std::string plan_report(const Config& config, const Device& device) {
  const bool gpu = device.kind() == DeviceKind::cuda;
  Place place = place_of(config, target_on(config, device), device.total_memory(),
                         gpu ? device.name() : "this machine");
  if (config.device.kind == Config::DeviceKind::cuda && !gpu) place.memory += "; for a GPU's: --gpu CARD";
  return report(config, place, plan(config, place.target));
}

std::string plan_report(const Config& config, const Card& card) {
  const Place place =
      place_of(config, target_on(config, card), size_t(card.memory), std::string("one ") + card.product);
  const Planned planned = plan(config, place.target);
  const std::vector<MicroBatch> tried = try_micro_batches(config, place.target);
  const std::string s = report(config, place, planned) + micro_batch_rows(config, tried);
  const auto own = std::find_if(tried.begin(), tried.end(),
                                [&](const MicroBatch& m) { return m.size == config.train.micro_batch; });
  if (!own->fits) return s;
  const auto tokens = double(config.train.batch_size * config.data.sequence_length);
  const auto micro_steps = double(config.train.batch_size / config.train.micro_batch);
  return s + time_report(time_of(planned.training.graph, micro_steps, card.rates), card, tokens);
}

}  // namespace genesis
