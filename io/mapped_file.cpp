#include "io/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "io/file.h"
#include "kernels/common/error.h"

namespace genesis {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int file = open_to_read(path);
  struct stat info {};
  const bool regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const size_t size = regular ? size_t(info.st_size) : 0;
  void* data = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  close(file);
  check(regular,
        "cannot read " + path.string() + ": it is not a regular file but " + kind_of_file(info.st_mode));
  if (data == MAP_FAILED) throw_errno("cannot map " + path.string());
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace genesis
