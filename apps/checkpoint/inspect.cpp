#include "apps/checkpoint/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "apps/report/run_folder.h"
#include "apps/train/training_graph.h"
#include "io/checkpoint_state.h"
#include "io/format.h"
#include "io/safetensors.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTensorFiles[] = {kCheckpointModelFile, kCheckpointOptimizerFile};

std::string words(StoredDType dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", name_of(dtype), fmt::join(shape, ", "));
}

// The files' tensors of the model and the optimizer that a config describes, by file and name.
std::map<std::string, std::map<std::string, std::vector<int64_t>>> tensors_of(const std::string& config) {
  Config c = parse_config(config, "its config");
  c.train.recompute = Config::Recompute::none;
  const Target target{DType::f32, DeviceKind::cpu, std::numeric_limits<size_t>::max(), &kCpuRates};
  std::map<std::string, std::map<std::string, std::vector<int64_t>>> tensors;
  for (const Value& v : build_training_graph(c, target).graph.values) {
    if (v.role != Role::parameter && v.role != Role::moment) continue;
    const char* const file = v.role == Role::parameter ? kCheckpointModelFile : kCheckpointOptimizerFile;
    std::vector<int64_t>& shape = tensors[file][v.name];
    for (int i = 0; i < v.shape.rank(); ++i) shape.push_back(v.shape[i]);
  }
  return tensors;
}

void compare_lists(const std::string& path, std::map<std::string, std::vector<int64_t>> wanted,
                   const SafetensorsFile& file, std::vector<std::string>& problems) {
  for (const TensorView& t : file.tensors()) {
    const auto expected = wanted.find(t.name);
    if (expected == wanted.end()) {
      problems.push_back(fmt::format("{}: '{}' is not in the model of its config", path, t.name));
      continue;
    }
    if (t.dtype != StoredDType::f32 || t.shape != expected->second) {
      problems.push_back(fmt::format("{}: '{}' is {}, and {} in the model of its config", path, t.name,
                                     words(t.dtype, t.shape), words(StoredDType::f32, expected->second)));
    }
    wanted.erase(expected);
  }
  for (const auto& [name, shape] : wanted) {
    problems.push_back(fmt::format("{}: '{}' is missing", path, name));
  }
}

// Norms, and the largest distance of two numbers.
struct Distance {
  double a = 0, b = 0, difference = 0, largest = 0;
};

Distance distance(const TensorView& a, const TensorView& b) {
  const auto at = [](const TensorView& t, size_t i) {
    float x;  // a file of another writer may be unaligned
    std::memcpy(&x, static_cast<const char*>(t.data) + i * sizeof x, sizeof x);
    return double(x);
  };
  Distance d;
  const size_t count = byte_size(a.dtype, a.shape, a.name) / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    const double x = at(a, i), y = at(b, i), apart = std::abs(x - y);
    d.a += x * x;
    d.b += y * y;
    d.difference += apart * apart;
    if (!(apart <= d.largest)) d.largest = apart;  // NaN stays
  }
  return {std::sqrt(d.a), std::sqrt(d.b), std::sqrt(d.difference), d.largest};
}

void diff_tensors(const fs::path& a, const fs::path& b, CheckpointDifference& result) {
  const SafetensorsFile file_a(a.string()), file_b(b.string());
  std::map<std::string, std::pair<const TensorView*, const TensorView*>> tensors;
  for (const TensorView& t : file_a.tensors()) tensors[t.name].first = &t;
  for (const TensorView& t : file_b.tensors()) tensors[t.name].second = &t;
  size_t same = 0;
  std::string rows;
  for (const auto& [name, pair] : tensors) {
    const auto [x, y] = pair;
    if (x == nullptr || y == nullptr) {
      rows += fmt::format("  {}: only in the {}\n", name, x == nullptr ? "second" : "first");
    } else if (x->dtype != y->dtype || x->shape != y->shape) {
      rows += fmt::format("  {}: {}, and {} in the second\n", name, words(x->dtype, x->shape),
                          words(y->dtype, y->shape));
    } else if (std::memcmp(x->data, y->data, byte_size(x->dtype, x->shape, name)) == 0) {
      ++same;
    } else if (x->dtype != StoredDType::f32) {
      rows += fmt::format("  {}: differs\n", name);
    } else {
      const Distance d = distance(*x, *y);
      rows +=
          fmt::format("  {}: largest difference {:.3g}; norms {:.6g} and {:.6g}, of the difference {:.3g}\n",
                      name, d.largest, d.a, d.b, d.difference);
    }
  }
  result.same &= same == tensors.size();
  result.text += fmt::format("{}: {} of {} tensors are equal in every bit\n{}", a.filename().string(), same,
                             tensors.size(), rows);
}

CheckpointManifest whole_manifest(const std::string& checkpoint) {
  const CheckpointManifest manifest = read_manifest(checkpoint);
  for (const auto& [name, sum] : manifest.files) check_file(fs::path(checkpoint) / name, sum);
  return manifest;
}

}  // namespace

std::vector<std::string> checkpoints_named(const std::string& path) {
  const bool is_run = fs::is_directory(fs::path(path) / "checkpoints");
  if (!is_run) {
    check(fs::is_directory(path), path + ": no such folder; expected a run's folder or a checkpoint's");
    return {path};
  }
  std::vector<std::string> all;
  for (const CheckpointEntry& c : list_run_checkpoints(path)) all.push_back(path + "/checkpoints/" + c.name);
  check(!all.empty(), path + ": the run has no checkpoints");
  return all;
}

std::string show_checkpoint(const std::string& checkpoint, bool tensors) {
  const CheckpointManifest manifest = read_manifest(checkpoint);
  const TrainState& s = manifest.state;
  std::string text = checkpoint + "\n";
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("  {:<12} {}\n", name, value);
  };
  line("written by", fmt::format("genesis {}, format {}", manifest.library_version, manifest.format_version));
  line("step", fmt::format("{}, of which {} applied", s.step, s.optimizer_step));
  line("samples", std::to_string(s.samples));
  line("tokens", std::to_string(s.tokens));
  line("seed", std::to_string(s.seed));
  line("schedule", fmt::format("from step {}", s.schedule_begin));
  line("type", s.dtype.empty() ? "not noted" : s.dtype);
  line("tokenizer", s.tokenizer_hash.empty() ? "none" : s.tokenizer_hash);
  if (!manifest.unsound.empty()) line("not sound", manifest.unsound);
  for (const DatasetIdentity& d : s.data) {
    line("data", fmt::format("{}: {} tokens in {} documents, content hash {}", d.path, d.tokens, d.documents,
                             d.hash));
  }
  for (const auto& [name, sum] : manifest.files) {
    line("file", fmt::format("{}: {}, XXH3 {}", name, format_bytes(double(sum.bytes)), sum.xxh3));
    if (!tensors) continue;
    const SafetensorsFile file((fs::path(checkpoint) / name).string());
    for (const TensorView& t : file.tensors()) {
      text += fmt::format("    {} {}\n", t.name, words(t.dtype, t.shape));
    }
  }
  return text;
}

std::vector<std::string> problems_of_checkpoint(const std::string& checkpoint) {
  std::vector<std::string> problems;
  const auto attempt = [&](const auto& action) {
    try {
      action();
      return true;
    } catch (const Error& error) {
      problems.push_back(error.what());
      return false;
    }
  };
  CheckpointManifest manifest;
  if (!attempt([&] { manifest = read_manifest(checkpoint); })) return problems;
  decltype(tensors_of("")) wanted;
  const bool known = attempt([&] { wanted = tensors_of(manifest.state.config); });
  for (const auto& file : manifest.files) {
    const fs::path path = fs::path(checkpoint) / file.first;
    attempt([&] {
      check_file(path, file.second);
      if (known) compare_lists(path.string(), wanted[file.first], SafetensorsFile(path.string()), problems);
    });
  }
  return problems;
}

CheckpointDifference diff_checkpoints(const std::string& a, const std::string& b) {
  const CheckpointManifest first = whole_manifest(a), second = whole_manifest(b);
  CheckpointDifference result;
  const auto line = [&](const char* name, int64_t x, int64_t y) {
    if (x != y) result.text += fmt::format("{}: {} and {}\n", name, x, y);
  };
  line("step", first.state.step, second.state.step);
  line("samples", first.state.samples, second.state.samples);
  line("steps not applied", first.state.bad_steps, second.state.bad_steps);
  if (first.state.config != second.state.config) {
    const std::string fixed = config_differences(parse_config(first.state.config, a + "'s config"),
                                                 parse_config(second.state.config, b + "'s config"));
    result.text +=
        "config: " + (fixed.empty() ? "differs in what may change while a run goes on" : fixed) + "\n";
  }
  for (const char* file : kTensorFiles) diff_tensors(fs::path(a) / file, fs::path(b) / file, result);
  return result;
}

}  // namespace genesis
