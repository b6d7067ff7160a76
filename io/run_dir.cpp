#include "io/run_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "io/file.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

constexpr const char *kConfig = "config.yaml", *kNewConfig = "config.yaml.tmp";

// What a start makes in a run's folder before the run begins. (Checkpoints and copies of damaged logs are not among it.)
constexpr const char* kMade[] = {
    "lock",          kNewConfig,          "tokenizer.model", "tokenizer.model.tmp",
    "metrics.jsonl", "metrics.jsonl.tmp", "tensorboard"};
constexpr const char* kEvents = "tensorboard";  // its files are one a start

bool there(const fs::path& path) {
  std::error_code unknown;  // where it can't be told, the one who opens it says why
  return fs::symlink_status(path, unknown).type() != fs::file_type::not_found;
}

std::set<fs::path> entries_of(const fs::path& folder) {
  std::set<fs::path> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) entries.insert(entry->path());
  return entries;
}

// Creates a folder and those above it; adds those that were not there to `created`, outermost first.
void create_folders(const fs::path& folder, std::vector<fs::path>& created) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  const fs::path parent = folder.parent_path();
  if (!parent.empty() && parent != folder) create_folders(parent, created);
  // A name that ends in "/" or "." is its parent's.
  if (fs::create_directory(folder, error)) created.push_back(folder);
  check(!error, "cannot create the run's folder " + folder.string() + ": " + error.message());
}

int open_lock(const std::string& path, bool& created) {
  int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  created = file >= 0;
  if (file < 0 && errno == EEXIST) file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  return file;
}

// Whether the file still has that name: a start that failed takes its lock away.
bool is_named(int file, const std::string& path) {
  struct stat held, named;
  return fstat(file, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

std::string read_lock(int file) {
  char text[32];  // a process id
  const ssize_t bytes = pread(file, text, sizeof text, 0);
  return {text, size_t(std::max<ssize_t>(bytes, 0))};
}

void write_lock(int file, const std::string& path, const std::string& text) {
  if (ftruncate(file, 0) != 0 || pwrite(file, text.data(), text.size(), 0) != ssize_t(text.size())) {
    throw_errno("cannot write " + path);
  }
}

}  // namespace

struct RunClaim::Start {
  explicit Start(fs::path run_dir) : folder(std::move(run_dir)) {}
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;
  ~Start() {
    if (!begun) take_back();
    if (lock >= 0) close(lock);
  }

  // Locks RUN_DIR/lock, which holds its owner's process id for the message to whoever comes second.
  void claim() {
    const std::string path = (folder / "lock").string();
    // Again where a start that failed took the folder or its lock away in between.
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      create_folders(folder, created_folders);
      bool created = false;
      lock = open_lock(path, created);
      if (lock < 0 && errno == ENOENT && i + 1 < kTries) continue;
      if (lock < 0) throw_errno("cannot write into the run's folder: " + path);
      if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) throw_errno("cannot lock " + path);
        throw Error(fmt::format(
            "{} is in use by another process (its id: {}): wait for it, stop it, or choose another "
            "folder for this run",
            folder.string(), read_lock(lock)));
      }
      if (is_named(lock, path)) {
        before = entries_of(folder);
        before.merge(entries_of(folder / kEvents));
        if (created) before.erase(path);
        owner_before = read_lock(lock);
        locked = true;
        write_lock(lock, path, std::to_string(getpid()));
        return;
      }
      close(std::exchange(lock, -1));
    }
    throw Error("cannot lock " + path + ": other starts take it away again and again");
  }

  void take_back() noexcept {
    std::error_code ignored;  // there is an error on its way already
    if (locked) {
      for (const fs::path& event : entries_of(folder / kEvents)) {
        if (!before.contains(event)) fs::remove(event, ignored);
      }
      for (const char* name : kMade) {
        if (!before.contains(folder / name)) fs::remove(folder / name, ignored);
      }
      if (before.contains(folder / "lock")) {
        const bool restored =
            ftruncate(lock, 0) == 0 && pwrite(lock, owner_before.data(), owner_before.size(), 0) >= 0;
        static_cast<void>(restored);
      }
    }
    for (auto it = created_folders.rbegin(); it != created_folders.rend(); ++it) fs::remove(*it, ignored);
  }

  // The run's config, beside the one that is there: begin() has only to rename it.
  void write_config(const std::string& config) {
    config_changes = true;
    FileWriter writer((folder / kNewConfig).string());
    writer.write(config.data(), config.size());
    writer.finish();
  }

  fs::path folder;
  bool config_changes = false;
  int lock = -1;
  bool locked = false, begun = false;
  std::vector<fs::path> created_folders;
  std::set<fs::path> before;  // what was there
  std::string owner_before;   // the lock's content
};

RunClaim::RunClaim(std::unique_ptr<Start> start) : start_(std::move(start)) {}
RunClaim::RunClaim(RunClaim&&) noexcept = default;
RunClaim& RunClaim::operator=(RunClaim&&) noexcept = default;
RunClaim::~RunClaim() = default;

void RunClaim::begin() {
  if (start_->config_changes) {
    const fs::path config = start_->folder / kConfig;
    if (std::rename((start_->folder / kNewConfig).c_str(), config.c_str()) != 0) {
      throw_errno("cannot replace " + config.string());
    }
    sync_folder(start_->folder.string());
  }
  start_->begun = true;
}

RunClaim claim_run_dir(const std::string& run_dir, const std::string& config, const CompareConfigs& compare) {
  auto start = std::make_unique<RunClaim::Start>(run_dir);
  start->claim();
  const std::string config_path = (start->folder / kConfig).string();
  if (!there(config_path)) {
    check(!there(start->folder / "checkpoints"),
          run_dir +
              " holds checkpoints but no config.yaml, so it can't be told whose they are: choose another "
              "folder for this run, or put that run's config.yaml back");
    start->write_config(config);
  } else if (const std::string held = read_text_file(config_path); held != config) {
    const std::string difference = compare(held, config);
    check(difference.empty(),
          run_dir + " holds another run: " + difference +
              ". Choose another folder for this run, or go on with that one's config.yaml");
    start->write_config(config);
  }
  return RunClaim(std::move(start));
}

std::string kept_tokenizer(const std::string& run_dir) {
  return (fs::path(run_dir) / "tokenizer.model").string();
}

}  // namespace genesis
