// The same step in micro-batches of other sizes: what each needs, and how long it takes.
#pragma once

#include <vector>

#include "apps/train/training_graph.h"

namespace genesis {

struct MicroBatch {
  int64_t size = 0;              // sequences
  size_t peak = 0;               // bytes in all, with the config's recomputation; 0: no plan fits
  bool fits = false;             // the target's memory
  double again = 0;              // FLOPs that are computed again, a token
  double tokens_per_second = 0;  // at most, by the model of time (engine/time) at the target's rates
};

// Powers of two that divide the batch, and the config's own, until two larger than that do not fit.
std::vector<MicroBatch> try_micro_batches(const Config& config, const Target& target);

// Of those that fit and are within 1% of the fastest the largest: what the model of time leaves out, products that are
// small for a card, is the less the larger they are. Null: none fits.
const MicroBatch* best_of(const std::vector<MicroBatch>& tried);

Config with_micro_batch(Config config, int64_t size);

}  // namespace genesis
