// genesis_checkpoint show|verify|diff|prune: a run's checkpoints, looked at and kept in order.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "apps/checkpoint/inspect.h"
#include "apps/integer_in.h"
#include "apps/main.h"
#include "apps/report/run_folder.h"
#include "io/checkpoint.h"
#include "io/file.h"
#include "io/run_dir.h"
#include "kernels/common/error.h"

using namespace genesis;

namespace {

struct Options {
  std::vector<std::string> paths;
  std::string path, other;
  bool tensors = false;
  int64_t keep = 0, keep_every = 0;
};

void warn(const std::string& line) { std::cerr << "genesis_checkpoint: " << line << "\n"; }

void show(const Options& o) {
  for (const std::string& path : o.paths)
    std::cout << show_checkpoint(find_checkpoint(path, warn), o.tensors);
}

void verify(const Options& o) {
  size_t all = 0, broken = 0;
  for (const std::string& path : o.paths) {
    for (const std::string& checkpoint : checkpoints_named(path)) {
      const std::vector<std::string> problems = problems_of_checkpoint(checkpoint);
      ++all;
      broken += !problems.empty();
      std::cout << checkpoint << ": " << (problems.empty() ? "whole" : "broken") << "\n";
      for (const std::string& problem : problems) std::cout << "  " << problem << "\n";
    }
  }
  std::cout.flush();
  check(broken == 0, fmt::format("{} of {} checkpoints {} broken", broken, all, broken == 1 ? "is" : "are"));
}

// True if there is no difference.
bool diff(const Options& o) {
  const CheckpointDifference d =
      diff_checkpoints(find_checkpoint(o.path, warn), find_checkpoint(o.other, warn));
  std::cout << d.text;
  return d.same;
}

void prune(const Options& o) {
  const std::string config = o.path + "/config.yaml";
  check(std::filesystem::is_directory(std::filesystem::path(o.path) / "checkpoints"),
        o.path + ": not the folder of a run with checkpoints");
  // No trainer may be writing there. The claim ends without a run begun, and changes nothing.
  const RunClaim claim = claim_run_dir(o.path, read_text_file(config), [](auto&, auto&) { return ""; });
  const std::vector<CheckpointEntry> before = list_run_checkpoints(o.path);
  prune_checkpoints(o.path, o.keep, o.keep_every);
  for (const CheckpointEntry& c : before) {
    const std::filesystem::path path = std::filesystem::path(o.path) / "checkpoints" / c.name;
    if (!std::filesystem::exists(path)) std::cout << "removed " << path.string() << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Prints, checks, compares and removes checkpoints.", "genesis_checkpoint"};
  app.require_subcommand(1);
  Options o;
  CLI::App* to_show = app.add_subcommand("show", "What a checkpoint holds");
  to_show->add_option("paths", o.paths, "checkpoints' folders, or runs' (their latest checkpoint)")
      ->required();
  to_show->add_flag("--tensors", o.tensors, "every tensor, with its type and shape");
  CLI::App* to_verify = app.add_subcommand(
      "verify",
      "Read all of it: sizes, checksums, tensors. Exit code 1 if anything is not as it was written");
  to_verify->add_option("paths", o.paths, "checkpoints' folders, or runs' (all of their checkpoints)")
      ->required();
  CLI::App* to_diff =
      app.add_subcommand("diff", "Compare two, tensor by tensor. Exit code 1 if a bit of any tensor differs");
  to_diff->add_option("first", o.path, "a checkpoint's folder, or a run's (its latest checkpoint)")
      ->required();
  to_diff->add_option("second", o.other, "another")->required();
  CLI::App* to_prune = app.add_subcommand("prune", "Remove a run's older checkpoints, as training does");
  to_prune->add_option("run", o.path, "the run's folder")->required();
  to_prune->add_option("--keep", o.keep, "keep the last so many")->transform(integer_in(1))->required();
  to_prune->add_option("--keep-every", o.keep_every, "keep those of multiples of so many steps, too; 0: none")
      ->transform(integer_in(0));
  bool same = true;
  const int code = run_main(app, argc, argv, [&] {
    if (*to_show) show(o);
    if (*to_verify) verify(o);
    if (*to_diff) same = diff(o);
    if (*to_prune) prune(o);
  });
  return code != 0 ? code : same ? 0 : 1;
}
