#include "io/input_file.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/file.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

constexpr size_t kBuffer = size_t(1) << 17;
constexpr int kPatience = 1000;  // milliseconds before it is said what is waited for

}  // namespace

InputFile::InputFile(const std::string& path, const OnNotice& notice)
    : name_(path == kStandardInput ? "standard input" : path), notice_(notice), buffer_(kBuffer) {
  file_ = path == kStandardInput ? dup(STDIN_FILENO) : open_to_read(path);
  if (file_ < 0) throw_errno("cannot read " + name_);
  struct stat info {};
  fstat(file_, &info);
  if (isatty(file_) && notice_) {
    notice_("reading what is typed (" + name_ + "): Ctrl-D at the beginning of a line ends it");
    told_ = true;
  }
  // A FIFO that nobody has opened for writing yet reads as ended: its first bytes, or its end, are waited for.
  if (S_ISFIFO(info.st_mode)) wait();
  refill();
}

InputFile::~InputFile() { close(file_); }

void InputFile::use(size_t n) {
  begin_ += n;
  used_ += int64_t(n);
  if (begin_ == end_) refill();
}

void InputFile::wait() {
  pollfd wanted{file_, POLLIN, 0};
  if (poll(&wanted, 1, told_ ? -1 : kPatience) != 0) return;
  told_ = true;
  if (notice_) notice_("waiting for text from " + name_ + ": nothing has come yet, nor its end");
  poll(&wanted, 1, -1);
}

void InputFile::refill() {
  ssize_t got;
  while ((got = ::read(file_, buffer_.data(), buffer_.size())) < 0) {
    if (errno == EAGAIN) {
      wait();
    } else if (errno != EINTR) {
      throw_errno("cannot read " + name_);
    }
  }
  begin_ = 0;
  end_ = size_t(got);
}

}  // namespace genesis
