// Between a run's arrays and its checkpoints.
#pragma once

#include <memory>
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

// Parameters, masters and moments with the state, in host memory.
class RunSnapshot {
 public:
  // With `copies` whatever becomes of the storage; else, on the CPU, of the arrays as they are when it is written.
  RunSnapshot(const Config& config, const TrainState& state, const Storage& storage,
              const CheckpointExtras& extras, bool copies);

  // Into the config's run_dir; keeps the checkpoints that the config says. `warn` as in save_checkpoint, and told of
  // older ones that can't be removed.
  void write(const Warn& warn) const;

 private:
  struct Held;
  std::shared_ptr<const Held> held_;
};

// Restores masters, compute copies and moments. Throws Error, with nothing changed, if the checkpoint is
// damaged or of another model.
TrainState load_run(const std::string& checkpoint, Storage& storage);

// Restores parameters alone, for a storage without masters or moments.
void load_parameters(const std::string& checkpoint, Storage& storage);

}  // namespace genesis
