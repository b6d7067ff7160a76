// What a run's folder tells about the run: its config, its metrics, its checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/config.h"
#include "io/run_metrics.h"

namespace genesis {

struct CheckpointEntry {
  std::string name;     // "step_00001000"
  int64_t step = 0;     // of its name
  int64_t tokens = 0;   // seen; 0 where it can't be read
  int64_t bytes = 0;    // of all its files
  std::string problem;  // why it can't be read; empty: nothing is wrong with its state.json
};

struct RunFolder {
  std::string path, name;        // the name is the path's last part
  std::string config_text;       // config.yaml; empty: there is none
  std::optional<Config> config;  // none: this version cannot read it
  RunMetrics metrics;
  std::vector<CheckpointEntry> checkpoints;  // by step
  std::vector<std::string> notes;            // what could not be read, for the reader
};

// By step; none where the run has saved nothing yet. Throws Error for a folder that cannot be read.
std::vector<CheckpointEntry> list_run_checkpoints(const std::string& run_dir);

// Throws Error for what is no run's folder: it has neither config.yaml nor metrics.jsonl nor checkpoints.
RunFolder read_run_folder(const std::string& path);

}  // namespace genesis
