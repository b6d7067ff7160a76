#include "bench/kernels/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "apps/train/training_graph.h"
#include "engine/ops/matmul.h"
#include "io/format.h"
#include "kernels/common/error.h"

namespace genesis::bench {
namespace {

// Measured publicly on RTX 4090s: copies at 911 GB/s of 1,008, large bf16 products with fp32 accumulation at
// 160 TFLOP/s of 165.2. The other cards are their data sheets' rates at the same fractions.
constexpr double kCopyFraction = 911. / 1008, kProductFraction = 160. / 165.2;

constexpr Card card(const char* name, const char* product, double gigabytes, double teraflops,
                    double gibibytes) {
  return {name, product, gigabytes * 1e9 * kCopyFraction, teraflops * 1e12 * kProductFraction,
          gibibytes * (1 << 30)};
}

constexpr std::array kCards = {
    card("sm_89", "RTX 4090", 1008, 165.2, 24), card("sm_120", "RTX 5090", 1792, 209.5, 32),
    card("sm_80", "A100 80GB", 2039, 312, 80),  card("sm_90", "H100 SXM", 3350, 989.4, 80),
    card("sm_90a", "H200", 4800, 989.4, 141),   card("sm_100", "B200", 8000, 2250, 180),
};

struct Row {
  int64_t calls = 0;
  double bytes = 0, flops = 0, seconds = 0;
  void add(const Row& other) {
    calls += other.calls;
    bytes += other.bytes;
    flops += other.flops;
    seconds += other.seconds;
  }
};

std::string label(const Graph& graph, const Node& node) {
  std::string name = node.op->name;
  if (node.op == &ops::kMatMul && node.backward && !node.recompute) {
    name += graph.value(node.in[1]).role == Role::parameter ? " d_x" : " d_weight";
  }
  return node.recompute ? name + ", again" : name;
}

// A step's kernels on a card.
struct Step {
  std::map<std::string, Row> kernels;
  Row total, layer;  // layer: an average execution of a stored layer, one micro-step
  double tokens = 0;

  double tokens_per_second() const { return tokens / total.seconds; }
};

Step step_on(const Config& config, const Card& card) {
  // A tenth of the card's memory is left to the system, as the trainer does.
  const TrainingGraph training =
      build_training_graph(config, DType::bf16, DeviceKind::cuda, size_t(card.memory * 0.9));
  const Graph& graph = training.graph;
  const int64_t micro_steps = config.train.batch_size / config.train.micro_batch;
  Step step;
  step.tokens = double(config.train.batch_size * config.data.sequence_length);
  int executions = 0;
  for (const Node& node : graph.nodes) {
    const Cost cost = cost_of(graph, node);
    const int64_t calls = node.phase == Phase::micro ? micro_steps : 1;
    const double seconds = std::max(cost.bytes / card.bytes_per_second, cost.flops / card.flops_per_second);
    const Row one{1, cost.bytes, cost.flops, seconds};
    const Row all{calls, double(calls) * cost.bytes, double(calls) * cost.flops, double(calls) * seconds};
    step.kernels[label(graph, node)].add(all);
    step.total.add(all);
    if (node.execution == kNone) continue;
    step.layer.add(one);
    executions = std::max(executions, node.execution + 1);
  }
  step.layer.seconds /= std::max(executions, 1);
  return step;
}

}  // namespace

std::span<const Card> cards() { return kCards; }

const Card& card_named(const std::string& name) {
  std::string known;
  for (const Card& c : kCards) {
    if (name == c.name || name == c.product) return c;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", c.name, c.product);
  }
  throw Error(fmt::format("no card is named '{}'; there are {}", name, known));
}

std::string roofline(const Config& config, const Card& card) {
  const Step step = step_on(config, card);
  std::vector<std::pair<std::string, Row>> rows(step.kernels.begin(), step.kernels.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  const auto line = [&](const std::string& name, const Row& r) {
    return fmt::format("{:<26}{:>8}{:>12}{:>12}{:>11.2f}{:>8.1f}%\n", name, r.calls, format_bytes(r.bytes),
                       format_count(r.flops), r.seconds * 1e3, 100 * r.seconds / step.total.seconds);
  };
  std::string s = fmt::format("{} ({}): {:.0f} GB/s, {:.0f} TFLOP/s bf16\n", card.product, card.name,
                              card.bytes_per_second / 1e9, card.flops_per_second / 1e12);
  s += fmt::format("{:<26}{:>8}{:>12}{:>12}{:>11}{:>9}\n", "a step's kernels", "calls", "bytes", "FLOPs",
                   "ms", "share");
  for (const auto& [name, row] : rows) s += line(name, row);
  s += line("step", step.total);
  s += fmt::format("a layer, forward and backward: {:.3f} ms a micro-step\n", step.layer.seconds * 1e3);
  return s + fmt::format("at most {:.0f} tokens/s\n", step.tokens_per_second());
}

std::string roofline_of_cards(std::span<const Config> configs) {
  std::string s = fmt::format("{:<12}{:>9}{:>10}", "card", "GB/s", "TFLOP/s");
  for (const Config& c : configs)
    s += fmt::format("{:>20}", std::filesystem::path(c.run_dir).filename().string());
  s += "\n";
  for (const Card& card : kCards) {
    s += fmt::format("{:<12}{:>9.0f}{:>10.0f}", card.product, card.bytes_per_second / 1e9,
                     card.flops_per_second / 1e12);
    for (const Config& c : configs) {
      std::string figure;
      try {
        figure = fmt::format("{:.0f}", step_on(c, card).tokens_per_second());
      } catch (const Error&) {
        figure = "does not fit";
      }
      s += fmt::format("{:>20}", figure);
    }
    s += "\n";
  }
  return s;
}

}  // namespace genesis::bench
