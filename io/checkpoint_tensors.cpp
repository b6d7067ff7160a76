#include "io/checkpoint_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "io/safetensors.h"
#include "kernels/common/bf16.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

int64_t elements_of(StoredDType dtype, std::span<const int64_t> shape, const std::string& name) {
  return int64_t(byte_size(dtype, shape, name) / size_of(dtype));
}

HeldTensor whole(const TensorView& t) { return {t.dtype, t.shape, 0, elements_of(t.dtype, t.shape, t.name)}; }

// As what a tensor is stored: whole ones in their shape, others as a row of numbers.
std::vector<int64_t> stored_shape(const HeldTensor& t) {
  const bool all = t.begin == 0 && t.count == elements_of(t.dtype, t.shape, "");
  return all ? t.shape : std::vector<int64_t>{t.count};
}

std::string described(StoredDType dtype, std::span<const int64_t> shape) {
  return fmt::format("{} [{}]", name_of(dtype), fmt::join(shape, ", "));
}

// Of whose files each may have `most_bytes`: the number of tensors in each, in their order.
std::vector<size_t> divided(std::span<const TensorView> tensors, uint64_t most_bytes) {
  std::vector<size_t> counts{0};
  uint64_t bytes = 0;
  for (const TensorView& t : tensors) {
    const uint64_t more = byte_size(t.dtype, t.shape, t.name);
    if (counts.back() > 0 && bytes + more > most_bytes) {
      counts.push_back(0);
      bytes = 0;
    }
    ++counts.back();
    bytes += more;
  }
  return counts;
}

}  // namespace

void write_weights(const fs::path& folder, std::span<const TensorView> weights,
                   std::map<std::string, HeldFile>& files, uint64_t most_bytes) {
  const std::vector<size_t> counts = divided(weights, most_bytes);
  nlohmann::json index;
  uint64_t total = 0;
  std::span<const TensorView> rest = weights;
  for (size_t i = 0; i < counts.size(); ++i) {
    const std::string name = weight_file_name(int64_t(i) + 1, int64_t(counts.size()));
    HeldFile& file = files[name];
    const auto part = rest.first(counts[i]);
    rest = rest.subspan(counts[i]);
    // transformers 4 takes no file without this.
    file.sum = write_safetensors((folder / name).string(), part, {{"format", "pt"}});
    for (const TensorView& t : part) {
      file.tensors[t.name] = whole(t);
      index["weight_map"][t.name] = name;
      total += byte_size(t.dtype, t.shape, t.name);
    }
  }
  index["metadata"]["total_size"] = total;
  const CheckpointFile text{"model.safetensors.index.json", index.dump(2) + "\n"};
  files[text.name] = write_file(folder, text);
}

HeldFile write_state(const fs::path& folder, int64_t rank, int64_t ranks,
                     std::span<const TensorSlice> slices) {
  HeldFile file;
  std::vector<TensorView> stored;
  for (const TensorSlice& s : slices) {
    const HeldTensor held{s.tensor.dtype, s.tensor.shape, s.begin, s.count};
    file.tensors[s.tensor.name] = held;
    stored.push_back({s.tensor.name, s.tensor.dtype, stored_shape(held), s.tensor.data});
  }
  file.sum = write_safetensors((folder / state_file_name(rank, ranks)).string(), stored);
  return file;
}

HeldFile write_file(const fs::path& folder, const CheckpointFile& file) {
  FileWriter writer((folder / file.name).string());
  writer.write(file.content.data(), file.content.size());
  return {writer.finish(), {}};
}

CheckpointTensors::CheckpointTensors(const fs::path& folder, const CheckpointManifest& manifest,
                                     const FileGroup& group)
    : path_((folder / group.name).string()) {
  for (const std::string& name : group.files) {
    HeldFile held = manifest.files.at(name);
    files_.emplace_back(folder / name);
    check_sum(folder / name, files_.back().bytes(), held.sum);
    if (manifest.format_version == 1) {
      const std::string path = (folder / name).string();
      for (const TensorView& t : parse_safetensors(files_.back().bytes(), path).tensors)
        held.tensors[t.name] = whole(t);
    }
    add_file((folder / name).string(), held);
  }
  for (auto& [name, tensor] : tensors_) {
    std::sort(tensor.slices.begin(), tensor.slices.end(),
              [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
    int64_t end = 0;
    for (const Slice& s : tensor.slices) {
      check(s.begin == end,
            fmt::format("{}: the slices of '{}' {}: one ends at element {}, the next begins at {}", path_,
                        name, s.begin < end ? "overlap" : "leave a hole", end, s.begin));
      end = s.begin + s.count;
    }
    const int64_t elements = elements_of(tensor.dtype, tensor.shape, name);
    check(end == elements,
          fmt::format("{}: the slices of '{}' end at element {} of {}", path_, name, end, elements));
  }
}

// What the manifest says of a file's tensors and what the file's header says must be the same.
void CheckpointTensors::add_file(const std::string& path, const HeldFile& held) {
  const SafetensorsContent content = parse_safetensors(files_.back().bytes(), path);
  check(content.tensors.size() == held.tensors.size(),
        fmt::format("{}: it holds {} tensors, and state.json names {}", path, content.tensors.size(),
                    held.tensors.size()));
  for (const TensorView& t : content.tensors) {
    const auto at = held.tensors.find(t.name);
    check(at != held.tensors.end(), fmt::format("{}: '{}' is not in state.json", path, t.name));
    const HeldTensor& h = at->second;
    const std::vector<int64_t> shape = stored_shape(h);
    check(t.dtype == h.dtype && t.shape == shape,
          fmt::format("{}: '{}' is {}, and {} by state.json", path, t.name, described(t.dtype, t.shape),
                      described(h.dtype, shape)));
    Tensor& tensor = tensors_[t.name];
    if (tensor.slices.empty()) {
      tensor.dtype = h.dtype;
      tensor.shape = h.shape;
    }
    check(tensor.dtype == h.dtype && tensor.shape == h.shape,
          fmt::format("{}: '{}' is a slice of {}, and one of {} in another file", path, t.name,
                      described(h.dtype, h.shape), described(tensor.dtype, tensor.shape)));
    tensor.slices.push_back({h.begin, h.count, static_cast<const std::byte*>(t.data)});
  }
}

void CheckpointTensors::read_f32(const Tensor& tensor, float* to) const {
  require(tensor.dtype == StoredDType::f32 || tensor.dtype == StoredDType::bf16, "a tensor of real numbers");
  for (const Slice& s : tensor.slices) {
    if (tensor.dtype == StoredDType::f32) {
      std::memcpy(to + s.begin, s.data, size_t(s.count) * sizeof(float));
      continue;
    }
    for (int64_t i = 0; i < s.count; ++i) {
      bf16 x;
      std::memcpy(&x, s.data + size_t(i) * sizeof x, sizeof x);
      to[s.begin + i] = float(x);
    }
  }
}

}  // namespace genesis
