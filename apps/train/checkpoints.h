// Between a run's arrays and its checkpoints.
#pragma once

#include <string>
#include <vector>

#include "engine/runtime/storage.h"
#include "io/checkpoint.h"
#include "io/config.h"

namespace genesis {

// What a run's checkpoints hold beside its arrays and counters, the same in all of them.
struct CheckpointExtras {
  CheckpointOrigin origin;
  std::vector<CheckpointFile> files;
};

// Writes parameters, masters and moments with the state into the config's run_dir; keeps the last checkpoint.keep sound
// checkpoints. `warn` as in save_checkpoint, and told of older ones that can't be removed.
void save_run(const Config& config, const TrainState& state, const Storage& storage,
              const CheckpointExtras& extras, const Warn& warn);

// Restores masters, compute copies and moments. Throws Error, with nothing changed, if the checkpoint is
// damaged or of another model.
TrainState load_run(const std::string& checkpoint, Storage& storage);

// Restores parameters alone, for a storage without masters or moments.
void load_parameters(const std::string& checkpoint, Storage& storage);

}  // namespace genesis
