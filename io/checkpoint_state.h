// state.json of a checkpoint (docs/checkpoint.md): what makes the folder a checkpoint, and what its files
// must be.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/file.h"

namespace genesis {

inline constexpr int64_t kCheckpointFormat = 2;  // that is written; 1 is read as well

// A tensor in one of the files: all of it or a slice, which is stored as [count].
struct HeldTensor {
  StoredDType dtype = StoredDType::f32;
  std::vector<int64_t> shape;    // of the whole tensor
  int64_t begin = 0, count = 0;  // in elements
  bool operator==(const HeldTensor&) const = default;
};

struct HeldFile {
  FileSum sum;
  std::map<std::string, HeldTensor> tensors;  // none of a file of another kind, nor in format 1
  bool operator==(const HeldFile&) const = default;
};

struct CheckpointManifest {
  int64_t format_version = kCheckpointFormat;
  std::string library_version;  // of the program that wrote it
  CheckpointOrigin origin;      // not in format 1
  TrainState state;
  std::string unsound;                    // why_unsound (checkpoint.h)
  std::map<std::string, HeldFile> files;  // by name in the folder
};

inline constexpr const char* kCheckpointStateFile = "state.json";

// Files of one kind and what they are called together.
struct FileGroup {
  std::string name;  // the only one's name, or "state-rank-*.safetensors"
  std::vector<std::string> files;
};
FileGroup weight_files(const CheckpointManifest& manifest);
FileGroup state_files(const CheckpointManifest& manifest);  // in format 1 the moments alone

std::string weight_file_name(int64_t number, int64_t of);  // number from 1, as Hugging Face counts
std::string state_file_name(int64_t rank, int64_t ranks);

void write_manifest(const std::filesystem::path& checkpoint, const CheckpointManifest& manifest);

// Throws Error, naming the file, unless it has the size and the checksum that it was written with: at sizes alone, or
// by reading all of it.
enum class Look { at_sizes, at_all };
void check_file(const std::filesystem::path& file, const FileSum& expected, Look look = Look::at_all);
void check_sum(const std::filesystem::path& file, std::span<const std::byte> bytes, const FileSum& expected);

// Error, which names the file and the field, unless it is whole, of a format this library reads, and names
// the files of parameters and of every rank's state.
CheckpointManifest read_manifest(const std::filesystem::path& checkpoint);

}  // namespace genesis
