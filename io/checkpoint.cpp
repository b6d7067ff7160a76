#include "io/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "io/checkpoint_state.h"
#include "io/checkpoint_tensors.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "step_";
constexpr const char* kTemporary = ".tmp";  // being written, or being removed

// ---- folders ----

fs::path folder_of(const std::string& run_dir) { return fs::path(run_dir) / "checkpoints"; }

fs::path temporary_of(const fs::path& checkpoint) { return checkpoint.string() + kTemporary; }

std::string name_of_step(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

// The step in a checkpoint's folder name, or nothing if it is not one.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string digits = name.substr(std::strlen(kPrefix));
  if (digits.empty() || digits.size() > 18) return std::nullopt;
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const int64_t step = std::stoll(digits);
  return name == name_of_step(step) ? std::optional(step) : std::nullopt;
}

struct Listing {
  std::vector<fs::path> checkpoints;  // of a checkpoint's name, highest step first
  std::vector<fs::path> temporaries;  // what interrupted saves and removals left
  std::vector<fs::path> others;       // of a name that only begins like a checkpoint's
};

// What a run's folder of checkpoints holds. Only where there is no such folder is it empty; one that can't be
// listed is an Error.
Listing list_checkpoints(const std::string& run_dir) {
  const fs::path folder = folder_of(run_dir);
  std::error_code error;
  Listing listing;
  const fs::file_type type = fs::symlink_status(folder, error).type();
  if (type == fs::file_type::not_found) return listing;
  std::map<int64_t, fs::path, std::greater<>> by_step;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    if (const auto step = step_of(name)) {
      by_step[*step] = entry->path();
    } else {
      (name.ends_with(kTemporary) ? listing.temporaries : listing.others).push_back(entry->path());
    }
  }
  check(!error, fmt::format("cannot list the checkpoints in {}{}: {}", folder.string(),
                            type == fs::file_type::symlink ? ", a symbolic link" : "", error.message()));
  for (const auto& [step, path] : by_step) listing.checkpoints.push_back(path);
  std::sort(listing.others.begin(), listing.others.end());
  return listing;
}

void remove_folder(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  check(!error, "cannot remove " + path.string() + ": " + error.message());
}

void remove_temporaries(const std::string& run_dir) {
  for (const fs::path& path : list_checkpoints(run_dir).temporaries) remove_folder(path);
}

// Gives a folder its name in one step. What had that name before, if anything, gets the folder's old one.
void publish(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  // ENOENT: there is nothing to exchange with. A file system that can't exchange (NFS) needs two steps.
  const bool cannot_exchange = errno == EINVAL || errno == ENOSYS;
  if (!cannot_exchange && errno != ENOENT) throw_errno("cannot replace " + to.string());
  const std::string aside = to.string() + ".replaced" + kTemporary;
  if (cannot_exchange && std::rename(to.c_str(), aside.c_str()) != 0 && errno != ENOENT) {
    throw_errno("cannot rename " + to.string());
  }
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    const int reason = errno;
    if (cannot_exchange) std::rename(aside.c_str(), to.c_str());
    errno = reason;
    throw_errno("cannot rename " + from.string());
  }
}

// ---- checking ----

struct Condition {
  std::string broken;   // why it is not complete; empty: it is
  std::string unsound;  // of a complete one: its manifest's
};

Condition condition_of(const fs::path& checkpoint, Look look) {
  try {
    const CheckpointManifest manifest = read_manifest(checkpoint);
    for (const auto& [name, file] : manifest.files) check_file(checkpoint / name, file.sum, Look::at_sizes);
    if (look == Look::at_all) {
      for (const auto& [name, file] : manifest.files) check_file(checkpoint / name, file.sum);
    }
    return {"", manifest.unsound};
  } catch (const Error& error) {
    return {error.what(), ""};
  }
}

// Before a checkpoint gets its name: what has that name and can't be read is kept, under a name that nothing
// removes or takes for a checkpoint.
void keep_unreadable(const fs::path& checkpoint, const Warn& warn) {
  const auto there = [](const fs::path& path) {
    return fs::symlink_status(path).type() != fs::file_type::not_found;
  };
  if (!there(checkpoint)) return;
  const std::string reason = condition_of(checkpoint, Look::at_all).broken;
  if (reason.empty()) return;
  fs::path aside;
  int number = 1;
  do {
    aside = checkpoint.string() + (number == 1 ? ".unreadable" : fmt::format(".unreadable.{}", number));
    ++number;
  } while (there(aside));
  if (std::rename(checkpoint.c_str(), aside.c_str()) != 0) {
    throw_errno("cannot rename the unreadable checkpoint " + checkpoint.string());
  }
  warn(fmt::format("{} could not be read and is kept as {}: {}", checkpoint.string(),
                   aside.filename().string(), reason));
}

// No number has an exponent of ones alone: an infinity, or not a number.
template <class Bits>
bool all_finite(const void* numbers, size_t count, Bits exponent) {
  const auto* bits = static_cast<const Bits*>(numbers);
  bool finite = true;
  for (size_t i = 0; i < count; ++i) finite &= Bits(bits[i] & exponent) != exponent;
  return finite;
}

void check_finite(const TensorView& tensor, size_t count) {
  require(tensor.dtype == StoredDType::f32 || tensor.dtype == StoredDType::bf16, "a tensor of real numbers");
  const bool finite = tensor.dtype == StoredDType::f32 ? all_finite<uint32_t>(tensor.data, count, 0x7f800000)
                                                       : all_finite<uint16_t>(tensor.data, count, 0x7f80);
  check(
      finite,
      fmt::format("'{}' holds a number that is not finite: a run can't go on from that, and it is not saved. "
                  "Go on from the checkpoint before, with a lower optim.lr",
                  tensor.name));
}

void check_finite(const CheckpointContent& content) {
  for (const auto* slices : {&content.masters, &content.moments}) {
    for (const TensorSlice& s : *slices) check_finite(s.tensor, size_t(s.count));
  }
  for (const TensorView& t : content.weights)
    check_finite(t, byte_size(t.dtype, t.shape, t.name) / size_of(t.dtype));
}

// Why what is about to be saved should not push an older checkpoint out; empty: nothing speaks against it.
std::string unsound(const CheckpointContent& content) {
  const int64_t bad = content.state.bad_steps_in_a_row;
  if (bad == 0) return "";
  return fmt::format("the last {} step{} not applied, for a loss or gradient that was not finite", bad,
                     bad == 1 ? " was" : "s were");
}

std::string described(StoredDType dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", name_of(dtype), fmt::join(shape, ", "));
}

// ---- loading ----

enum class Types { same, any_float };

// A group's tensors, checked against where they go. Throws, listing them, if there are differences.
class Loading {
 public:
  Loading(const fs::path& folder, const CheckpointManifest& manifest, const FileGroup& group,
          std::vector<NamedTensor> wanted, Types types = Types::same)
      : held_(folder, manifest, group), wanted_(std::move(wanted)) {
    std::set<std::string> left_over;
    for (const auto& [name, tensor] : held_.tensors()) left_over.insert(name);
    for (const NamedTensor& t : wanted_) {
      left_over.erase(t.name);
      compare(t, types);
    }
    for (const std::string& name : left_over) {
      differences_.push_back(fmt::format("'{}' of the file is not in the model", name));
    }
    const size_t total = differences_.size(), most = 10;
    differences_.resize(std::min(total, most));
    check(total == 0,
          fmt::format("{}: not a checkpoint of this model: {}{}", held_.path(), fmt::join(differences_, "; "),
                      total > most ? fmt::format("; and {} more differences", total - most) : ""));
  }

  void copy() const {
    for (const NamedTensor& t : wanted_) {
      held_.read_f32(held_.tensors().at(t.name), static_cast<float*>(t.data));
    }
  }

 private:
  void compare(const NamedTensor& wanted, Types types) {
    const auto at = held_.tensors().find(wanted.name);
    if (at == held_.tensors().end()) {
      differences_.push_back("'" + wanted.name + "' is missing from the file");
      return;
    }
    const bool same_type = at->second.dtype == wanted.dtype && wanted.dtype == StoredDType::f32;
    const bool widened = types == Types::any_float && at->second.dtype == StoredDType::bf16;
    if ((same_type || widened) && at->second.shape == wanted.shape) return;
    differences_.push_back(fmt::format("'{}' is {} in the file and {} in the model", wanted.name,
                                       described(at->second.dtype, at->second.shape),
                                       described(wanted.dtype, wanted.shape)));
  }

  CheckpointTensors held_;
  std::vector<NamedTensor> wanted_;
  std::vector<std::string> differences_;
};

// ---- saving ----

constexpr const char* kMaster = "master.";  // before a parameter's name, in the files of ranks' state

void write_checkpoint(const fs::path& folder, const CheckpointContent& content) {
  CheckpointManifest manifest;
  manifest.state = content.state;
  manifest.origin = content.origin;
  manifest.unsound = unsound(content);
  for (const CheckpointFile& file : content.files) manifest.files[file.name] = write_file(folder, file);
  write_weights(folder, content.weights, manifest.files);
  std::vector<TensorSlice> slices = content.masters;
  for (TensorSlice& s : slices) s.tensor.name = kMaster + s.tensor.name;
  slices.insert(slices.end(), content.moments.begin(), content.moments.end());
  manifest.files[state_file_name(0, content.origin.ranks)] =
      write_state(folder, 0, content.origin.ranks, slices);
  write_manifest(folder, manifest);
  sync_folder(folder.string());
}

}  // namespace

std::vector<TensorSlice> whole_slices(std::span<const TensorView> tensors) {
  std::vector<TensorSlice> slices;
  for (const TensorView& t : tensors) {
    slices.push_back({t, 0, int64_t(byte_size(t.dtype, t.shape, t.name) / size_of(t.dtype))});
  }
  return slices;
}

std::string save_checkpoint(const std::string& run_dir, const CheckpointContent& content, const Warn& warn) {
  const fs::path folder = folder_of(run_dir);
  const fs::path checkpoint = folder / name_of_step(content.state.step);
  const fs::path temporary = temporary_of(checkpoint);
  check_finite(content);
  std::error_code error;
  fs::create_directories(folder, error);
  check(!error, "cannot create " + folder.string() + ": " + error.message());
  remove_temporaries(run_dir);
  try {
    fs::create_directory(temporary, error);
    check(!error, "cannot create " + temporary.string() + ": " + error.message());
    write_checkpoint(temporary, content);
    keep_unreadable(checkpoint, warn);
    publish(temporary, checkpoint);
  } catch (...) {
    fs::remove_all(temporary, error);  // the disk may be full: leave no half of a checkpoint on it
    throw;
  }
  sync_folder(folder.string());
  sync_folder(run_dir);
  remove_temporaries(run_dir);  // the one that was replaced
  return checkpoint.string();
}

std::optional<std::string> latest_checkpoint(const std::string& run_dir, const Warn& warn) {
  const Listing listing = list_checkpoints(run_dir);
  std::vector<std::string> broken;
  for (const fs::path& checkpoint : listing.checkpoints) {
    const std::string reason = condition_of(checkpoint, Look::at_all).broken;
    if (reason.empty()) {
      for (const std::string& b : broken) warn("skipping the broken checkpoint " + b);
      return checkpoint.string();
    }
    broken.push_back(checkpoint.string() + ": " + reason);
  }
  for (const fs::path& path : listing.others) broken.push_back(path.string() + ": not a checkpoint's name");
  check(broken.empty(),
        fmt::format(
            "{} holds checkpoints, and none of them can be read: {}. Nothing was changed: make one readable, "
            "or move them away to begin anew",
            folder_of(run_dir).string(), fmt::join(broken, "; ")));
  return std::nullopt;
}

void set_broken_aside(const std::string& run_dir, int64_t step, const Warn& warn) {
  for (const fs::path& checkpoint : list_checkpoints(run_dir).checkpoints) {
    if (step_of(checkpoint.filename().string()) > step) keep_unreadable(checkpoint, warn);
  }
}

std::string why_unsound(const std::string& checkpoint) { return read_manifest(checkpoint).unsound; }

std::string find_checkpoint(const std::string& path, const Warn& warn) {
  std::error_code unreadable;
  if (fs::exists(fs::path(path) / kCheckpointStateFile, unreadable)) return path;
  check(fs::is_directory(path, unreadable),
        path + ": no such folder; expected a run's folder or a checkpoint's");
  const auto latest = latest_checkpoint(path, warn);
  check(latest.has_value(), path +
                                ": neither a checkpoint's folder (it has no state.json) nor a run's with a "
                                "complete checkpoint in it "
                                "(checkpoints/step_*)");
  return *latest;
}

TrainState read_checkpoint_state(const std::string& checkpoint) { return read_manifest(checkpoint).state; }

void load_checkpoint(const std::string& checkpoint, std::span<const NamedTensor> masters,
                     std::span<const NamedTensor> moments) {
  const fs::path folder(checkpoint);
  const CheckpointManifest manifest = read_manifest(folder);
  std::vector<NamedTensor> state(moments.begin(), moments.end());
  if (manifest.format_version == 1) {
    const Loading parameters(folder, manifest, weight_files(manifest), {masters.begin(), masters.end()});
    const Loading others(folder, manifest, state_files(manifest), std::move(state));
    parameters.copy();
    others.copy();
    return;
  }
  for (const NamedTensor& t : masters) {
    state.push_back(t);
    state.back().name = kMaster + t.name;
  }
  Loading(folder, manifest, state_files(manifest), std::move(state)).copy();
}

void load_checkpoint_weights(const std::string& checkpoint, std::span<const NamedTensor> by_others,
                             std::span<const NamedTensor> by_us) {
  const fs::path folder(checkpoint);
  const CheckpointManifest manifest = read_manifest(folder);
  const auto wanted = manifest.format_version == 1 ? by_us : by_others;
  Loading(folder, manifest, weight_files(manifest), {wanted.begin(), wanted.end()}, Types::any_float).copy();
}

void prune_checkpoints(const std::string& run_dir, int64_t keep, int64_t keep_every,
                       std::span<const int64_t> best_first) {
  check(keep >= 1, fmt::format("checkpoints to keep: at least 1, found {}", keep));
  struct Whole {
    fs::path path;
    bool sound;
  };
  std::map<int64_t, Whole, std::greater<>> whole;  // highest step first
  for (const fs::path& checkpoint : list_checkpoints(run_dir).checkpoints) {
    const Condition condition = condition_of(checkpoint, Look::at_sizes);
    if (!condition.broken.empty()) continue;
    whole[*step_of(checkpoint.filename().string())] = {checkpoint, condition.unsound.empty()};
  }
  const auto best = std::find_if(best_first.begin(), best_first.end(), [&](int64_t step) {
    const auto at = whole.find(step);
    return at != whole.end() && at->second.sound;
  });
  int64_t sound = 0, unsound = 0;
  for (const auto& [step, checkpoint] : whole) {
    const bool kept = checkpoint.sound ? ++sound <= keep || (keep_every > 0 && step % keep_every == 0) ||
                                             (best != best_first.end() && step == *best)
                                       : ++unsound == 1 && sound == 0;
    if (kept) continue;
    // Renamed first: a removal that is interrupted must not leave a half under a checkpoint's name.
    const fs::path& path = checkpoint.path;
    if (std::rename(path.c_str(), temporary_of(path).c_str()) != 0)
      throw_errno("cannot remove " + path.string());
    remove_folder(temporary_of(path));
  }
}

}  // namespace genesis
