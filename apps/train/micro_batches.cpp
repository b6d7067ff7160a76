#include "apps/train/micro_batches.h"

#include <algorithm>

#include "engine/passes/plan_memory.h"
#include "engine/time/graph_time.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

MicroBatch try_size(const Config& config, const Target& target) {
  const int64_t size = config.train.micro_batch;
  MicroBatch tried{.size = size};
  TrainingGraph training;
  try {
    training = build_training_graph(config, target);
  } catch (const Error&) {  // no recomputation makes it fit
    return tried;
  }
  tried.peak = persistent_bytes(training.graph) + plan_memory(training.graph, target.device).bytes;
  tried.fits = tried.peak <= target.memory;
  tried.again = training.recompute.flops / double(size * config.data.sequence_length);
  const GraphTime time = time_of(training.graph, double(config.train.batch_size / size), *target.rates);
  tried.tokens_per_second =
      double(config.train.batch_size * config.data.sequence_length) / time.total.seconds;
  return tried;
}

}  // namespace

Config with_micro_batch(Config config, int64_t size) {
  config.train.micro_batch = size;
  return config;
}

std::vector<MicroBatch> try_micro_batches(const Config& config, const Target& target) {
  const int64_t own = config.train.micro_batch;
  std::vector<MicroBatch> tried;
  int unfit = 0;
  const auto add = [&](int64_t size) {
    tried.push_back(try_size(with_micro_batch(config, size), target));
    unfit += size > own && !tried.back().fits;
  };
  bool own_tried = false;
  for (int64_t size = 1; size <= config.train.batch_size && config.train.batch_size % size == 0 && unfit < 2;
       size *= 2) {
    if (!own_tried && own < size) add(own);
    own_tried = own_tried || own <= size;
    add(size);
  }
  if (!own_tried) add(own);
  return tried;
}

const MicroBatch* best_of(const std::vector<MicroBatch>& tried) {
  double most = 0;
  for (const MicroBatch& m : tried) most = std::max(most, m.fits ? m.tokens_per_second : 0);
  const MicroBatch* best = nullptr;
  for (const MicroBatch& m : tried) {
    if (m.fits && m.tokens_per_second >= 0.99 * most && (!best || m.size > best->size)) best = &m;
  }
  return best;
}

}  // namespace genesis
