// state.json of a checkpoint (docs/checkpoint.md): what makes the folder a checkpoint, and what its files
// must be.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "io/checkpoint.h"
#include "io/file.h"

namespace genesis {

struct CheckpointManifest {
  int64_t format_version = 0;   // 0: not read from a file
  std::string library_version;  // of the program that wrote it
  TrainState state;
  std::string unsound;                   // why_unsound (checkpoint.h)
  std::map<std::string, FileSum> files;  // by name in the folder
};

inline constexpr const char* kCheckpointStateFile = "state.json";
inline constexpr const char* kCheckpointModelFile = "model.safetensors";
inline constexpr const char* kCheckpointOptimizerFile = "optimizer.safetensors";

void write_manifest(const std::filesystem::path& checkpoint, const CheckpointManifest& manifest);

// Throws Error, naming the file, unless it has the size and the checksum that it was written with: at sizes alone, or by
// reading all of it.
enum class Look { at_sizes, at_all };
void check_file(const std::filesystem::path& file, const FileSum& expected, Look look = Look::at_all);
void check_sum(const std::filesystem::path& file, std::span<const std::byte> bytes, const FileSum& expected);

// Error, which names the file and the field, unless it is whole, of a format this library reads, and names
// both tensor files.
CheckpointManifest read_manifest(const std::filesystem::path& checkpoint);

}  // namespace genesis
