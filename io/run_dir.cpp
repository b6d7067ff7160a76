#include "io/run_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/file.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

// Locks RUN_DIR/lock, which holds its owner's process id for the message to whoever comes second.
RunClaim lock_folder(const fs::path& run_dir) {
  const std::string path = (run_dir / "lock").string();
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) throw_errno("cannot write into the run's folder: " + path);
  RunClaim claim(file);
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw_errno("cannot lock " + path);
    throw Error(
        fmt::format("{} is in use by another process (its id: {}): wait for it, stop it, or choose another "
                    "folder for this run",
                    run_dir.string(), read_text_file(path)));
  }
  const std::string owner = std::to_string(getpid());
  if (ftruncate(file, 0) != 0 || pwrite(file, owner.data(), owner.size(), 0) != ssize_t(owner.size())) {
    throw_errno("cannot write " + path);
  }
  return claim;
}

}  // namespace

RunClaim::RunClaim(RunClaim&& other) noexcept : lock_file_(std::exchange(other.lock_file_, -1)) {}

RunClaim& RunClaim::operator=(RunClaim&& other) noexcept {
  std::swap(lock_file_, other.lock_file_);
  return *this;
}

RunClaim::~RunClaim() {
  if (lock_file_ >= 0) close(lock_file_);
}

RunClaim claim_run_dir(const std::string& run_dir, const std::string& config, const CompareConfigs& compare) {
  const fs::path folder(run_dir);
  const std::string config_path = (folder / "config.yaml").string();
  std::error_code error;
  fs::create_directories(folder, error);
  check(!error, "cannot create the run's folder " + run_dir + ": " + error.message());
  check(
      fs::exists(config_path) || !fs::exists(folder / "checkpoints"),
      run_dir +
          " holds checkpoints but no config.yaml, so it can't be told whose they are: choose another folder "
          "for this run, or put that run's config.yaml back");

  RunClaim claim = lock_folder(folder);
  std::string held;
  if (fs::exists(config_path)) {
    held = read_text_file(config_path);
    const std::string difference = compare(held, config);
    check(difference.empty(),
          run_dir + " holds another run: " + difference +
              ". Choose another folder for this run, or go on with that one's config.yaml");
  }
  if (held != config) replace_text_file(config_path, config);
  return claim;
}

std::string kept_tokenizer(const std::string& run_dir) {
  return (fs::path(run_dir) / "tokenizer.model").string();
}

}  // namespace genesis
