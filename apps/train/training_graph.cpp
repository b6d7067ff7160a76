#include "apps/train/training_graph.h"

#include <fmt/format.h>

#include "apps/device.h"
#include "engine/core/align.h"
#include "engine/ops/op.h"
#include "engine/passes/differentiate.h"
#include "io/format.h"
#include "kernels/common/error.h"
#include "model/decoder.h"
#include "model/executions.h"
#include "model/parameters.h"
#include "optim/optimizer.h"

namespace genesis {

Target target_on(const Config& config, const Device& device) {
  return {compute_type(config.device, device.kind()), device.kind(),
          memory_limit(config, device.total_memory()), &rates_of(device.kind(), device.name())};
}

Target target_on(const Config& config, const Card& card) {
  return {compute_type(config.device, DeviceKind::cuda), DeviceKind::cuda,
          memory_limit(config, size_t(card.memory)), &card.rates};
}

double model_flops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::micro && !node.recompute) flops += cost_of(graph, node).flops;
  }
  return flops;
}

size_t bytes_of(const Graph& graph, Role role) {
  size_t bytes = 0;
  for (ValueId id : graph.with_role(role)) bytes += graph.value(id).bytes();
  return bytes;
}

size_t persistent_bytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Value& v : graph.values) bytes += v.role == Role::activation ? 0 : aligned(v.bytes());
  for (const Node& node : graph.nodes) bytes += aligned(constants_of(graph, node));
  return bytes;
}

size_t memory_limit(const Config& config, size_t device_memory) {
  return config.train.memory_budget > 0 ? size_t(config.train.memory_budget) : device_memory / 10 * 9;
}

void check_fits(const Config& config, size_t persistent, size_t arena, size_t memory) {
  const auto bytes = [](size_t n) { return format_bytes(double(n)); };
  const size_t peak = persistent + arena;
  if (peak <= memory) return;
  throw Error(fmt::format(
      "training needs {}: {} for parameters, gradients and optimizer, {} for activations (train.recompute: "
      "{}). That "
      "is {} more than {}: {}lower train.micro_batch, make the model smaller, or raise train.memory_budget",
      bytes(peak), bytes(persistent), bytes(arena), name_of(config.train.recompute), bytes(peak - memory),
      config.train.memory_budget > 0
          ? fmt::format("the {} of train.memory_budget", bytes(memory))
          : fmt::format("the {} that are nine tenths of this device's memory", bytes(memory)),
      config.train.recompute == Config::Recompute::automatic ? "" : "choose train.recompute: auto, "));
}

namespace {

// Sizes are sums of up to some hundred thousand values: of this many bytes each they stay below 2^63.
constexpr double kMostBytes = 0x1p45;

void check_sizes(const Graph& graph) {
  for (const Value& v : graph.values) {
    double bytes = double(size_of(v.dtype));
    for (int i = 0; i < v.shape.rank(); ++i) bytes *= double(v.shape[i]);
    check(bytes <= kMostBytes, fmt::format("'{}' alone, of shape {}, is {}: make the model, "
                                           "train.micro_batch or data.sequence_length smaller",
                                           v.name, v.shape.to_string(), format_bytes(bytes)));
  }
}

RecomputePolicy policy_of(Config::Recompute choice) {
  switch (choice) {
    case Config::Recompute::none:
      return RecomputePolicy::none;
    case Config::Recompute::block:
      return RecomputePolicy::block;
    case Config::Recompute::automatic:
      return RecomputePolicy::automatic;
  }
  throw Error("unknown recompute choice");
}

}  // namespace

TrainingGraph build_training_graph(const Config& config, const Target& target, const AfterPass& after) {
  const auto passed = [&](const char* pass, const Graph& graph) {
    if (after) after(pass, graph);
  };
  const BatchShape batch{config.train.micro_batch, config.data.sequence_length, config.data.document_mask};
  TrainingGraph t;
  t.graph = build_loss_graph(config.model, batch, target.dtype, trained_recurrence(config.model));
  check_sizes(t.graph);
  passed("build", t.graph);

  differentiate(t.graph);
  passed("differentiate", t.graph);

  std::vector<TrainedParameter> trained;
  for (const Parameter& p : parameters(config.model)) {
    trained.push_back({.parameter = p.name, .decay = p.decay, .matrices = layer_matrices(p)});
  }
  append_optimizer(t.graph, t.graph.at(kLossAndCount), config.optim.clip_norm, *make_optimizer(config.optim),
                   trained);
  passed("optimizer", t.graph);

  const size_t persistent = persistent_bytes(t.graph);
  const bool automatic = config.train.recompute == Config::Recompute::automatic;
  check(!automatic || persistent < target.memory,
        "parameters, gradients and optimizer need " + format_bytes(double(persistent)) + ", but there are " +
            format_bytes(double(target.memory)) + ": raise train.memory_budget or make the model smaller");
  require(target.rates != nullptr, "a target has its device's rates");
  t.recompute = recompute(t.graph, policy_of(config.train.recompute), target.device, *target.rates,
                          automatic ? target.memory - persistent : 0);
  passed("recompute", t.graph);
  return t;
}

}  // namespace genesis
