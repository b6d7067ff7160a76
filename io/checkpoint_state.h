// state.json of a checkpoint (docs/checkpoint.md): what makes the folder a checkpoint, and what its files
// must be.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "io/checkpoint.h"
#include "io/file.h"

namespace genesis {

struct CheckpointManifest {
  TrainState state;
  std::string unsound;                   // why_unsound (checkpoint.h)
  std::map<std::string, FileSum> files;  // by name in the folder
};

inline constexpr const char* kCheckpointStateFile = "state.json";
inline constexpr const char* kCheckpointModelFile = "model.safetensors";
inline constexpr const char* kCheckpointOptimizerFile = "optimizer.safetensors";

void write_manifest(const std::filesystem::path& checkpoint, const CheckpointManifest& manifest);

// Error, which names the file and the field, unless it is whole, of a format this library reads, and names
// both tensor files.
CheckpointManifest read_manifest(const std::filesystem::path& checkpoint);

}  // namespace genesis
