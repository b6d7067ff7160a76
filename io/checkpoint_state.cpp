#include "io/checkpoint_state.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "io/json.h"
#include "io/mapped_file.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "genesis-checkpoint";
constexpr size_t kMaxBytes = size_t(64) << 20;  // of the file; a run's is a few kilobytes

struct Counter {
  const char* name;
  int64_t TrainState::*member;
  bool later = false;  // not in the first checkpoints of this format: 0 there
};
constexpr Counter kCounters[] = {
    {"step", &TrainState::step},
    {"optimizer_step", &TrainState::optimizer_step},
    {"samples", &TrainState::samples},
    {"tokens", &TrainState::tokens},
    {"bad_steps", &TrainState::bad_steps},
    {"bad_steps_in_a_row", &TrainState::bad_steps_in_a_row},
    {"schedule_begin", &TrainState::schedule_begin, true},
};

// The file's own checksum: of all but that checksum, without white space and with sorted keys.
std::string own_sum(json root) {
  root.erase("xxh3");
  const std::string text = root.dump();
  return sum_of(std::as_bytes(std::span(text))).xxh3;
}

// A field of an object, of the type asked for; integers are never negative.
template <class T>
T field(const json& object, const char* name, const std::string& path) {
  if (const auto at = object.find(name); at != object.end()) {
    bool good;
    if constexpr (std::is_integral_v<T>) {
      good = at->is_number_unsigned() && std::in_range<T>(at->template get<uint64_t>());
    } else if constexpr (std::is_same_v<T, std::string>) {
      good = at->is_string();
    } else {
      good = at->is_object();
    }
    if (good) return at->template get<T>();
  }
  throw Error(fmt::format("{}: the field '{}' is missing or of another type", path, name));
}

json json_of(const DatasetIdentity& d) {
  return {{"path", d.path}, {"tokens", d.tokens}, {"documents", d.documents}, {"hash", d.hash}};
}

std::vector<DatasetIdentity> datasets(const json& root, const std::string& path) {
  std::vector<DatasetIdentity> all;
  const auto held = root.find("data");
  if (held == root.end()) return all;  // not in the first checkpoints of this format
  check(held->is_array(), path + ": the field 'data' is of another type");
  for (const json& d : *held) {
    all.push_back({field<std::string>(d, "path", path), field<int64_t>(d, "tokens", path),
                   field<int64_t>(d, "documents", path), field<std::string>(d, "hash", path)});
  }
  return all;
}

json json_of(const HeldFile& file) {
  json value = {{"bytes", file.sum.bytes}, {"xxh3", file.sum.xxh3}};
  for (const auto& [name, t] : file.tensors) {
    value["tensors"][name] = {
        {"dtype", name_of(t.dtype)}, {"shape", t.shape}, {"begin", t.begin}, {"count", t.count}};
  }
  return value;
}

HeldTensor held_tensor(const json& value, const std::string& name, const std::string& path) {
  const std::string what = fmt::format("{}: the tensor '{}'", path, name);
  check(value.is_object(), what + " is of another type");
  HeldTensor t;
  const auto dtype = dtype_named(field<std::string>(value, "dtype", what));
  check(dtype.has_value(), what + ": a dtype that this library doesn't know");
  t.dtype = *dtype;
  check(value.contains("shape") && value["shape"].is_array(), what + ": the field 'shape' is missing");
  for (const json& extent : value["shape"]) {
    check(extent.is_number_unsigned() && std::in_range<int64_t>(extent.get<uint64_t>()),
          what + ": its shape is no list of numbers");
    t.shape.push_back(extent.get<int64_t>());
  }
  t.begin = field<int64_t>(value, "begin", what);
  t.count = field<int64_t>(value, "count", what);
  const auto elements = int64_t(byte_size(t.dtype, t.shape, what) / size_of(t.dtype));
  check(t.begin <= elements && t.count <= elements - t.begin,
        fmt::format("{}: elements {} to {} of {}", what, t.begin, uint64_t(t.begin) + uint64_t(t.count),
                    elements));
  return t;
}

HeldFile held_file(const json& files, const std::string& name, const std::string& path) {
  const json value = field<json>(files, name.c_str(), path);
  HeldFile file{{field<uint64_t>(value, "bytes", path), field<std::string>(value, "xxh3", path)}, {}};
  if (!value.contains("tensors")) return file;
  const json tensors = field<json>(value, "tensors", path);
  for (const auto& [tensor, held] : tensors.items()) {
    file.tensors[tensor] = held_tensor(held, tensor, path + ": " + name);
  }
  return file;
}

void read_files(const json& root, const std::string& path, CheckpointManifest& manifest) {
  const json files = field<json>(root, "files", path);
  std::vector<std::string> names{"model.safetensors", "optimizer.safetensors"};  // of format 1
  if (manifest.format_version > 1) {
    names.clear();
    for (const auto& [name, value] : files.items()) {
      const bool plain = !name.empty() && name.find('/') == std::string::npos && !name.starts_with('.') &&
                         name != kCheckpointStateFile;
      check(plain, fmt::format("{}: '{}' is no name of a file in this folder", path, name));
      names.push_back(name);
    }
  }
  for (const std::string& name : names) manifest.files[name] = held_file(files, name, path);
  check(!weight_files(manifest).files.empty(), path + ": it names no file of parameters");
  if (manifest.format_version == 1) return;
  const int64_t ranks = manifest.origin.ranks;
  check(ranks >= 1 && size_t(ranks) == state_files(manifest).files.size(),
        fmt::format("{}: written by {} ranks, and it names {} files of their state", path, ranks,
                    state_files(manifest).files.size()));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    check(manifest.files.contains(state_file_name(rank, ranks)),
          path + ": it does not name " + state_file_name(rank, ranks));
  }
}

FileGroup group(const CheckpointManifest& manifest, const std::string& begin) {
  FileGroup g;
  for (const auto& [name, file] : manifest.files) {
    if (name.starts_with(begin) && name.ends_with(".safetensors")) g.files.push_back(name);
  }
  g.name = g.files.size() == 1 ? g.files[0] : begin + "*.safetensors";
  return g;
}

}  // namespace

FileGroup weight_files(const CheckpointManifest& manifest) {
  return group(manifest, manifest.format_version == 1 ? "model." : "model-");
}

FileGroup state_files(const CheckpointManifest& manifest) {
  return group(manifest, manifest.format_version == 1 ? "optimizer." : "state-rank-");
}

std::string weight_file_name(int64_t number, int64_t of) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number, of);
}

std::string state_file_name(int64_t rank, int64_t ranks) {
  return fmt::format("state-rank-{}-of-{}.safetensors", rank, ranks);
}

void write_manifest(const std::filesystem::path& checkpoint, const CheckpointManifest& manifest) {
  const std::string path = (checkpoint / kCheckpointStateFile).string();
  json root = {
      {"format", kFormat}, {"format_version", kCheckpointFormat}, {"library_version", GENESIS_VERSION}};
  root["unsound"] = manifest.unsound;
  const CheckpointOrigin& origin = manifest.origin;
  root["origin"] = {{"program", origin.program},
                    {"device", origin.device},
                    {"ranks", origin.ranks},
                    {"recurrence", origin.recurrence}};
  json& state = root["state"];
  for (const Counter& c : kCounters) {
    check(manifest.state.*c.member >= 0, path + ": internal error: " + c.name + " is negative");
    state[c.name] = uint64_t(manifest.state.*c.member);
  }
  state["seed"] = manifest.state.seed;
  state["config"] = manifest.state.config;
  state["tokenizer_hash"] = manifest.state.tokenizer_hash;
  state["dtype"] = manifest.state.dtype;
  for (const DatasetIdentity& d : manifest.state.data) root["data"].push_back(json_of(d));
  for (const auto& [name, file] : manifest.files) root["files"][name] = json_of(file);
  try {
    root["xxh3"] = own_sum(root);
  } catch (const json::exception& error) {
    throw Error(path + ": the config or the tokenizer's hash is not UTF-8: " + error.what());
  }
  const std::string text = root.dump(2) + "\n";
  FileWriter writer(path);
  writer.write(text.data(), text.size());
  writer.finish();
}

namespace {

void check_size(const std::filesystem::path& file, uint64_t found, uint64_t expected) {
  check(found == expected, fmt::format("{}: it has {} bytes and was written with {}: cut off or changed",
                                       file.string(), found, expected));
}

}  // namespace

void check_sum(const std::filesystem::path& file, std::span<const std::byte> bytes, const FileSum& expected) {
  check_size(file, bytes.size(), expected.bytes);
  check(sum_of(bytes) == expected,
        file.string() + ": its checksum is not the one it was written with: the file was damaged");
}

void check_file(const std::filesystem::path& file, const FileSum& expected, Look look) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(file, error);
  check(!error, file.string() + ": " + error.message());
  check_size(file, bytes, expected.bytes);
  if (look == Look::at_all) check_sum(file, MappedFile(file).bytes(), expected);
}

CheckpointManifest read_manifest(const std::filesystem::path& checkpoint) {
  const std::string path = (checkpoint / kCheckpointStateFile).string();
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  check(!text.empty(), path + ": the file is empty");
  check(text.size() <= kMaxBytes,
        fmt::format("{}: {} bytes, not the state of a checkpoint", path, text.size()));
  const json root = parse_json(text, path, 6);  // as deep as a tensor's shape
  check(root.is_object() && root.value("format", json()) == kFormat,
        path + ": not the state of a checkpoint");
  const auto version = field<int64_t>(root, "format_version", path);
  check(version >= 1 && version <= kCheckpointFormat,
        fmt::format(
            "{}: in format {}, written by genesis {}; this is genesis {}, which reads formats 1 to {}", path,
            version, field<std::string>(root, "library_version", path), GENESIS_VERSION, kCheckpointFormat));
  check(field<std::string>(root, "xxh3", path) == own_sum(root),
        path + ": its checksum is not that of its content: the file was damaged or edited");

  CheckpointManifest manifest;
  manifest.format_version = version;
  manifest.library_version = field<std::string>(root, "library_version", path);
  if (root.contains("unsound")) manifest.unsound = field<std::string>(root, "unsound", path);
  const json state = field<json>(root, "state", path);
  for (const Counter& c : kCounters) {
    if (c.later && !state.contains(c.name)) continue;
    manifest.state.*c.member = field<int64_t>(state, c.name, path);
  }
  manifest.state.seed = field<uint64_t>(state, "seed", path);
  manifest.state.config = field<std::string>(state, "config", path);
  manifest.state.tokenizer_hash = field<std::string>(state, "tokenizer_hash", path);
  if (state.contains("dtype")) manifest.state.dtype = field<std::string>(state, "dtype", path);
  manifest.state.data = datasets(root, path);
  if (version > 1) {
    const json origin = field<json>(root, "origin", path);
    manifest.origin = {field<std::string>(origin, "program", path),
                       field<std::string>(origin, "device", path), field<int64_t>(origin, "ranks", path),
                       field<int64_t>(origin, "recurrence", path)};
  }
  read_files(root, path, manifest);
  return manifest;
}

}  // namespace genesis
