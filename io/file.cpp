#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/mapped_file.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

int open_file(const std::string& path, int flags) {
  int file;
  do file = open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (file < 0 && errno == EINTR);
  return file;
}

}  // namespace

void throw_errno(const std::string& what) {
  throw Error(what + ": " + std::generic_category().message(errno));
}

FileSum sum_of(std::span<const std::byte> bytes) {
  Xxh3 hash;
  hash.add(bytes.data(), bytes.size());
  return {bytes.size(), hash.digest()};
}

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  file_ = open_file(path_, O_WRONLY | O_CREAT | O_TRUNC);
  if (file_ < 0) throw_errno("cannot write " + path_);
}

FileWriter::~FileWriter() {
  if (file_ >= 0) close(file_);
}

void FileWriter::write(const void* data, size_t n) {
  // A piece is hashed and then written while it is still in the cache.
  constexpr size_t kPiece = size_t(1) << 20;
  const auto* next = static_cast<const char*>(data);
  while (n > 0) {
    const size_t piece = std::min(n, kPiece);
    hash_.add(next, piece);
    for (size_t done = 0; done < piece;) {
      const ssize_t got = ::write(file_, next + done, piece - done);
      if (got < 0 && errno != EINTR) throw_errno("cannot write " + path_);
      if (got > 0) done += size_t(got);
    }
    next += piece;
    n -= piece;
    written_ += piece;
  }
}

FileSum FileWriter::finish() {
  if (fsync(file_) != 0) throw_errno("cannot write " + path_ + " to disk");
  if (close(std::exchange(file_, -1)) != 0) throw_errno("cannot write " + path_);
  return {written_, hash_.digest()};
}

const char* kind_of_file(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFCHR:
      return "a character device";
    case S_IFBLK:
      return "a block device";
    case S_IFSOCK:
      return "a socket";
    default:
      return "no file";
  }
}

int open_to_read(const std::string& path) {
  int file = open_file(path, O_RDONLY | O_NONBLOCK);
  // A regular file that another program has a lease on: only its giving that up is waited for.
  if (file < 0 && errno == EWOULDBLOCK) file = open_file(path, O_RDONLY);
  const int error = errno;
  struct stat info {};
  if (file < 0) {
    const bool socket = error == ENXIO && stat(path.c_str(), &info) == 0;
    check(!socket, "cannot read " + path + ": it is " + kind_of_file(info.st_mode));
    errno = error;
    throw_errno("cannot read " + path);
  }
  if (fstat(file, &info) == 0 && S_ISDIR(info.st_mode)) {
    close(file);
    throw Error("cannot read " + path + ": it is not a regular file but a folder");
  }
  return file;
}

std::string read_text_file(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string file_to_replace(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as many as Linux follows
  fs::path place = path;
  std::error_code no_link;
  for (int links = 0;; ++links) {
    const fs::path target = fs::read_symlink(place, no_link);
    if (no_link) break;
    check(links < kMostLinks, path + ": its symbolic links lead in a circle");
    place = place.parent_path() / target;
  }
  struct stat info {};
  const bool there = stat(place.c_str(), &info) == 0;
  check(!there || S_ISREG(info.st_mode),
        path + ": cannot be replaced: it is not a regular file but " + kind_of_file(info.st_mode));
  return place.string();
}

void replace_text_file(const std::string& path, std::string_view text) {
  const std::string file = file_to_replace(path), temporary = file + ".tmp";
  FileWriter writer(temporary);
  writer.write(text.data(), text.size());
  writer.finish();
  if (std::rename(temporary.c_str(), file.c_str()) != 0) throw_errno("cannot replace " + path);
  const std::string folder = std::filesystem::path(file).parent_path().string();
  sync_folder(folder.empty() ? "." : folder);
}

void sync_folder(const std::string& path) {
  const int folder = open_file(path, O_RDONLY | O_DIRECTORY);
  if (folder < 0) throw_errno("cannot open the folder " + path);
  const bool synced = fsync(folder) == 0;
  const int error = errno;
  close(folder);
  errno = error;
  // Some network file systems have nothing to sync for a folder and say so with EINVAL.
  if (!synced && error != EINVAL) throw_errno("cannot write the folder " + path + " to disk");
}

}  // namespace genesis
