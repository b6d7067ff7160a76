#include "apps/report/run_folder.h"

#include <algorithm>
#include <filesystem>

#include "io/checkpoint.h"
#include "io/file.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_";

// "step_00001000", and not "step_00001000.tmp", which is being written or removed.
bool is_checkpoint_name(const std::string& name) {
  return name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    const auto size = file.file_size(error);
    if (!error) bytes += int64_t(size);
  }
  return bytes;
}

CheckpointEntry entry_of(const fs::path& folder) {
  CheckpointEntry entry;
  entry.name = folder.filename().string();
  entry.step = std::stoll(entry.name.substr(kPrefix.size()));
  entry.bytes = bytes_in(folder);
  try {
    entry.tokens = read_checkpoint_state(folder.string()).tokens;
  } catch (const Error& error) {
    entry.problem = error.what();
  }
  return entry;
}

std::string last_part(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

void read_config(const std::string& path, RunFolder& run) {
  try {
    run.config_text = read_text_file(path);
    run.config = parse_config(run.config_text, path);
  } catch (const Error& error) {
    run.notes.push_back(error.what());
  }
}

}  // namespace

std::vector<CheckpointEntry> list_run_checkpoints(const std::string& run_dir) {
  const fs::path folder = fs::path(run_dir) / "checkpoints";
  std::vector<CheckpointEntry> list;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    const std::string name = item.path().filename().string();
    // No step has 18 digits: what has is no checkpoint.
    if (is_checkpoint_name(name) && name.size() < kPrefix.size() + 18) list.push_back(entry_of(item.path()));
  }
  check(!error || error == std::errc::no_such_file_or_directory,
        "cannot read " + folder.string() + ": " + error.message());
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return list;
}

RunFolder read_run_folder(const std::string& path) {
  const fs::path folder(path);
  const std::string config = (folder / "config.yaml").string(), metrics = (folder / "metrics.jsonl").string();
  std::error_code error;
  check(fs::is_directory(folder, error), path + ": no such folder; expected a run's, its config's run_dir");
  check(fs::exists(config) || fs::exists(metrics) || fs::exists(folder / "checkpoints"),
        path + ": not a run's folder: it has no config.yaml, no metrics.jsonl and no checkpoints");

  RunFolder run;
  run.path = path;
  run.name = last_part(folder);
  if (fs::exists(config)) read_config(config, run);
  MetricsReader reader(metrics);
  reader.update();
  run.metrics = reader.metrics();
  if (run.metrics.passed_over > 0) {
    run.notes.push_back(std::to_string(run.metrics.passed_over) +
                        " lines of metrics.jsonl are no records and are left out; the first is " +
                        run.metrics.first_passed_over);
  }
  run.checkpoints = list_run_checkpoints(path);
  return run;
}

}  // namespace genesis
