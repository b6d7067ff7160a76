// Between a run's arrays and its checkpoints.
#pragma once

#include <string>

#include "engine/runtime/storage.h"
#include "io/checkpoint.h"

namespace genesis {

// Writes masters and moments with the state; keeps the last `keep` sound checkpoints (0: all). `warn` as in
// save_checkpoint.
void save_run(const std::string& run_dir, const TrainState& state, const Storage& storage, int64_t keep,
              const Warn& warn);

// Restores masters, compute copies and moments. Throws Error, with nothing changed, if the checkpoint is
// damaged or of another model.
TrainState load_run(const std::string& checkpoint, Storage& storage);

// Restores parameters alone, for a storage without masters or moments.
void load_parameters(const std::string& checkpoint, Storage& storage);

}  // namespace genesis
