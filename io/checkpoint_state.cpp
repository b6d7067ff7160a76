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
constexpr int64_t kFormatVersion = 1;
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

}  // namespace

void write_manifest(const std::filesystem::path& checkpoint, const CheckpointManifest& manifest) {
  const std::string path = (checkpoint / kCheckpointStateFile).string();
  json root = {{"format", kFormat}, {"format_version", kFormatVersion}, {"library_version", GENESIS_VERSION}};
  root["unsound"] = manifest.unsound;
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
  for (const auto& [name, sum] : manifest.files) {
    root["files"][name] = {{"bytes", sum.bytes}, {"xxh3", sum.xxh3}};
  }
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
  const json root = parse_json(text, path, 3);
  check(root.is_object() && root.value("format", json()) == kFormat,
        path + ": not the state of a checkpoint");
  const auto version = field<int64_t>(root, "format_version", path);
  check(version == kFormatVersion,
        fmt::format("{}: in format {}, written by genesis {}; this is genesis {}, which reads format {}",
                    path, version, field<std::string>(root, "library_version", path), GENESIS_VERSION,
                    kFormatVersion));
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
  const json files = field<json>(root, "files", path);
  for (const char* name : {kCheckpointModelFile, kCheckpointOptimizerFile}) {
    const json sum = field<json>(files, name, path);
    manifest.files[name] = {field<uint64_t>(sum, "bytes", path), field<std::string>(sum, "xxh3", path)};
  }
  return manifest;
}

}  // namespace genesis
