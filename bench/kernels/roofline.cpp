#include "bench/kernels/roofline.h"

#include <fmt/format.h>

#include <filesystem>

#include "apps/train/micro_batches.h"
#include "apps/train/time_report.h"
#include "apps/train/training_graph.h"

namespace genesis::bench {

std::string roofline(const Config& config, const Card& card) {
  const Target target = target_on(config, card);
  const std::vector<MicroBatch> tried = try_micro_batches(config, target);
  const MicroBatch* best = best_of(tried);
  if (!best) return fmt::format("does not fit one {}\n", card.product);
  const GraphTime time = time_of(build_training_graph(with_micro_batch(config, best->size), target).graph,
                                 double(config.train.batch_size / best->size), card.rates);
  return fmt::format("micro-batch {}, the best\n{}", best->size,
                     time_report(time, card, double(config.train.batch_size * config.data.sequence_length)));
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
      const std::vector<MicroBatch> tried = try_micro_batches(c, target_on(c, card));
      const MicroBatch* best = best_of(tried);
      const std::string figure =
          best ? fmt::format("{:.0f} ({})", best->tokens_per_second, best->size) : "does not fit";
      s += fmt::format("{:>20}", figure);
    }
    s += "\n";
  }
  return s;
}

}  // namespace genesis::bench
