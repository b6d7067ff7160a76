#include "io/output_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/file.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

// Whether the path still names the open file: the one who held the lock before removes it.
bool is_at(const std::string& path, int file) {
  struct stat named {
  }, opened{};
  return stat(path.c_str(), &named) == 0 && fstat(file, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

}  // namespace

OutputClaim::OutputClaim(const std::string& name) : path_(lock_file(name)) {
  while (true) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file_ < 0) throw_errno("cannot write " + path_);
    if (flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      close(file_);
      throw Error(name + ": is being written by another process: wait for it, or choose another name");
    }
    if (is_at(path_, file_)) return;
    close(file_);
  }
}

std::string OutputClaim::lock_file(const std::string& name) { return file_to_replace(name) + ".lock.tmp"; }

OutputClaim::~OutputClaim() {
  unlink(path_.c_str());
  close(file_);
}

}  // namespace genesis
