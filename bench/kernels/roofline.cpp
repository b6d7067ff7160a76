#include "bench/kernels/roofline.h"

#include <fmt/format.h>

#include <filesystem>

#include "apps/train/time_report.h"
#include "apps/train/training_graph.h"
#include "kernels/common/error.h"

namespace genesis::bench {
namespace {

struct Step {
  GraphTime time;
  double tokens = 0;
};

Step step_on(const Config& config, const Card& card) {
  const Target target{DType::bf16, DeviceKind::cuda, memory_limit(config, size_t(card.memory)), &card.rates};
  const Graph graph = build_training_graph(config, target).graph;
  return {time_of(graph, double(config.train.batch_size / config.train.micro_batch), card.rates),
          double(config.train.batch_size * config.data.sequence_length)};
}

}  // namespace

std::string roofline(const Config& config, const Card& card) {
  const Step step = step_on(config, card);
  return time_report(step.time, card, step.tokens);
}

std::string roofline_of_cards(std::span<const Config> configs) {
  std::string s = fmt::format("{:<12}{:>9}{:>10}{:>10}", "card", "GB/s", "TFLOP/s", "mma.sync");
  for (const Config& c : configs)
    s += fmt::format("{:>20}", std::filesystem::path(c.run_dir).filename().string());
  s += "\n";
  for (const Card& card : cards()) {
    s += fmt::format("{:<12}{:>9.0f}{:>10.0f}{:>10.0f}", card.product, card.rates.bytes / 1e9,
                     card.rates.library / 1e12, card.rates.mma / 1e12);
    for (const Config& c : configs) {
      std::string figure;
      try {
        const Step step = step_on(c, card);
        figure = fmt::format("{:.0f}", step.tokens / step.time.total.seconds);
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
