// The tensor files of a checkpoint (docs/checkpoint.md): written, and read back as whole tensors whatever slices the
// ranks wrote.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/checkpoint_state.h"
#include "io/mapped_file.h"

namespace genesis {

// The parameters as Hugging Face's sharded files and their index, a new file before one would pass `most_bytes` (a
// tensor that is larger has a file of its own). Adds them to `files`.
void write_weights(const std::filesystem::path& folder, std::span<const TensorView> weights,
                   std::map<std::string, HeldFile>& files, uint64_t most_bytes = uint64_t(5) << 30);

// A rank's slices.
HeldFile write_state(const std::filesystem::path& folder, int64_t rank, int64_t ranks,
                     std::span<const TensorSlice> slices);

HeldFile write_file(const std::filesystem::path& folder, const CheckpointFile& file);

// The tensors of a group of files, whose checksums and headers have been compared with the manifest, and whose slices
// make up whole tensors. Error, which names the file or the tensor.
class CheckpointTensors {
 public:
  CheckpointTensors(const std::filesystem::path& folder, const CheckpointManifest& manifest,
                    const FileGroup& group);

  struct Slice {
    int64_t begin = 0, count = 0;
    const std::byte* data = nullptr;  // may be unaligned
  };
  struct Tensor {
    StoredDType dtype = StoredDType::f32;
    std::vector<int64_t> shape;
    std::vector<Slice> slices;  // one after another
  };
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::string& path() const { return path_; }  // of the group, for messages

  // All of a tensor of f32 or bf16, as fp32.
  void read_f32(const Tensor& tensor, float* to) const;

 private:
  void add_file(const std::string& path, const HeldFile& held);

  std::string path_;
  std::vector<MappedFile> files_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace genesis
