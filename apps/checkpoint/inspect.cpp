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
#include "io/checkpoint_tensors.h"
#include "io/format.h"
#include "io/safetensors.h"
#include "kernels/common/error.h"
#include "model/parameters.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

std::string words(StoredDType dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", name_of(dtype), fmt::join(shape, ", "));
}

// What a group of files has to hold.
struct Wanted {
  StoredDType dtype = StoredDType::f32;
  std::map<std::string, std::vector<int64_t>> shapes;
};

// Of the model and the optimizer that a checkpoint's config describes.
struct WantedFiles {
  Wanted weights, state;
};

std::vector<int64_t> dims_of(const Shape& shape) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

WantedFiles files_wanted(const CheckpointManifest& manifest) {
  Config c = parse_config(manifest.state.config, "its config");
  c.train.recompute = Config::Recompute::none;
  const bool dotted = manifest.format_version == 1;  // masters are its parameters
  WantedFiles wanted;
  if (!dotted && manifest.state.dtype == name_of(DType::bf16)) wanted.weights.dtype = StoredDType::bf16;
  for (const Parameter& p : parameters(c.model)) {
    if (dotted) {
      wanted.weights.shapes[p.name] = dims_of(p.shape);
      continue;
    }
    wanted.state.shapes["master." + p.name] = dims_of(p.shape);
    for (const OutsideTensor& part : p.outside) {
      std::vector<int64_t>& dims = wanted.weights.shapes[part.name] = dims_of(p.shape);
      dims[0] = part.rows;
    }
  }
  const Target target{DType::f32, DeviceKind::cpu, std::numeric_limits<size_t>::max(), &kCpuRates};
  for (const Value& v : build_training_graph(c, target).graph.values) {
    if (v.role == Role::moment) wanted.state.shapes[v.name] = dims_of(v.shape);
  }
  return wanted;
}

void compare_lists(const CheckpointTensors& held, const Wanted& wanted, std::vector<std::string>& problems) {
  std::map<std::string, std::vector<int64_t>> left = wanted.shapes;
  for (const auto& [name, t] : held.tensors()) {
    const auto expected = left.find(name);
    if (expected == left.end()) {
      problems.push_back(fmt::format("{}: '{}' is not in the model of its config", held.path(), name));
      continue;
    }
    if (t.dtype != wanted.dtype || t.shape != expected->second) {
      problems.push_back(fmt::format("{}: '{}' is {}, and {} in the model of its config", held.path(), name,
                                     words(t.dtype, t.shape), words(wanted.dtype, expected->second)));
    }
    left.erase(expected);
  }
  for (const auto& [name, shape] : left) {
    problems.push_back(fmt::format("{}: '{}' is missing", held.path(), name));
  }
}

// Norms, and the largest distance of two numbers.
struct Distance {
  double a = 0, b = 0, difference = 0, largest = 0;
};

Distance distance(const std::vector<float>& a, const std::vector<float>& b) {
  Distance d;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i], apart = std::abs(x - y);
    d.a += x * x;
    d.b += y * y;
    d.difference += apart * apart;
    if (!(apart <= d.largest)) d.largest = apart;  // NaN stays
  }
  return {std::sqrt(d.a), std::sqrt(d.b), std::sqrt(d.difference), d.largest};
}

bool of_numbers(const CheckpointTensors::Tensor& t) {
  return t.dtype == StoredDType::f32 || t.dtype == StoredDType::bf16;
}

std::vector<float> numbers_of(const CheckpointTensors& file, const CheckpointTensors::Tensor& t) {
  check(of_numbers(t), file.path() + ": it holds tensors of another type than F32 or BF16");
  std::vector<float> numbers(byte_size(t.dtype, t.shape, file.path()) / size_of(t.dtype));
  file.read_f32(t, numbers.data());
  return numbers;
}

void diff_tensors(const char* what, const CheckpointTensors& a, const CheckpointTensors& b,
                  CheckpointDifference& result) {
  using Tensor = CheckpointTensors::Tensor;
  std::map<std::string, std::pair<const Tensor*, const Tensor*>> tensors;
  for (const auto& [name, t] : a.tensors()) tensors[name].first = &t;
  for (const auto& [name, t] : b.tensors()) tensors[name].second = &t;
  size_t same = 0;
  std::string rows;
  for (const auto& [name, pair] : tensors) {
    const auto [x, y] = pair;
    if (x == nullptr || y == nullptr) {
      rows += fmt::format("  {}: only in the {}\n", name, x == nullptr ? "second" : "first");
      continue;
    }
    if (x->dtype != y->dtype || x->shape != y->shape) {
      rows += fmt::format("  {}: {}, and {} in the second\n", name, words(x->dtype, x->shape),
                          words(y->dtype, y->shape));
      continue;
    }
    const std::vector<float> first = numbers_of(a, *x), second = numbers_of(b, *y);
    if (std::memcmp(first.data(), second.data(), first.size() * sizeof(float)) == 0) {
      ++same;
      continue;
    }
    const Distance d = distance(first, second);
    rows +=
        fmt::format("  {}: largest difference {:.3g}; norms {:.6g} and {:.6g}, of the difference {:.3g}\n",
                    name, d.largest, d.a, d.b, d.difference);
  }
  result.same &= same == tensors.size();
  result.text +=
      fmt::format("{}: {} of {} tensors are equal in every bit\n{}", what, same, tensors.size(), rows);
}

CheckpointManifest whole_manifest(const std::string& checkpoint) {
  const CheckpointManifest manifest = read_manifest(checkpoint);
  for (const auto& [name, file] : manifest.files) check_file(fs::path(checkpoint) / name, file.sum);
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
  if (const CheckpointOrigin& o = manifest.origin; !o.device.empty()) {
    line("device", fmt::format("{}, {} {}", o.device, o.ranks, o.ranks == 1 ? "rank" : "ranks"));
    line("recurrence", std::to_string(o.recurrence));
  }
  line("tokenizer", s.tokenizer_hash.empty() ? "none" : s.tokenizer_hash);
  if (!manifest.unsound.empty()) line("not sound", manifest.unsound);
  for (const DatasetIdentity& d : s.data) {
    line("data", fmt::format("{}: {} tokens in {} documents, content hash {}", d.path, d.tokens, d.documents,
                             d.hash));
  }
  for (const auto& [name, file] : manifest.files) {
    line("file", fmt::format("{}: {}, XXH3 {}", name, format_bytes(double(file.sum.bytes)), file.sum.xxh3));
    if (!tensors || !name.ends_with(".safetensors")) continue;
    const SafetensorsFile held((fs::path(checkpoint) / name).string());
    for (const TensorView& t : held.tensors()) {
      text += fmt::format("    {} {}", t.name, words(t.dtype, t.shape));
      if (const auto slice = file.tensors.find(t.name);
          slice != file.tensors.end() && slice->second.shape != t.shape) {
        text += fmt::format(", from element {} on of [{}]", slice->second.begin,
                            fmt::join(slice->second.shape, ", "));
      }
      text += "\n";
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
  for (const auto& file : manifest.files) {
    attempt([&] { check_file(fs::path(checkpoint) / file.first, file.second.sum); });
  }
  if (!problems.empty()) return problems;
  WantedFiles wanted;
  if (!attempt([&] { wanted = files_wanted(manifest); })) return problems;
  const auto compare = [&](const FileGroup& group, const Wanted& what) {
    attempt([&] { compare_lists(CheckpointTensors(checkpoint, manifest, group), what, problems); });
  };
  compare(weight_files(manifest), wanted.weights);
  compare(state_files(manifest), wanted.state);
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
  check(first.format_version == second.format_version,
        fmt::format("{} is in format {} and {} in format {}: what they hold has other names", a,
                    first.format_version, b, second.format_version));
  const auto diff = [&](const char* what, FileGroup (*group)(const CheckpointManifest&)) {
    diff_tensors(what, CheckpointTensors(a, first, group(first)), CheckpointTensors(b, second, group(second)),
                 result);
  };
  diff("weights", weight_files);
  diff("state", state_files);
  return result;
}

}  // namespace genesis
