// Files as this library writes them (mapped_file.h reads): with a checksum on the way, and
// durable (fsync) before anything refers to them. Every failure is a genesis::Error that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/xxh3.h"

namespace genesis {

// What a file must be to be the one that was written.
struct FileSum {
  uint64_t bytes = 0;
  std::string xxh3;  // XXH3, 64 bits, 16 lower-case hexadecimal digits (xxhsum -H3 prints the same)
  bool operator==(const FileSum&) const = default;
};
FileSum sum_of(std::span<const std::byte> bytes);

// A file being written, front to back. It is whole and on disk once finish() has returned; without that it is
// left as it is, so write under a temporary name.
class FileWriter {
 public:
  explicit FileWriter(std::string path);  // created, or emptied if it is there
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t n);
  FileSum finish();  // fsync and close

 private:
  std::string path_;
  int file_ = -1;
  uint64_t written_ = 0;
  Xxh3 hash_;
};

std::string read_text_file(const std::string& path);

// Opens a file to read, without waiting for the other end of a FIFO; reads do not wait either. Error if it
// cannot be opened or is a folder.
int open_to_read(const std::string& path);

// What a file is, of its st_mode: "a regular file", "a folder", "a FIFO".
const char* kind_of_file(unsigned mode);

// The file that a write to `path` replaces: itself, or where it is a symbolic link the end of the chain, which need not be
// there yet. So links stay, as with a shell's `>`. Error if something is there that is no regular file (a device would be
// gone), or links lead in a circle.
std::string file_to_replace(const std::string& path);

// Puts `text` into file_to_replace(path) in one step: a reader, or a crash, sees the old file or the new one.
void replace_text_file(const std::string& path, std::string_view text);

// Makes creations, renames and removals in a folder durable.
void sync_folder(const std::string& path);

// Throws Error("<what>: <errno's message>").
[[noreturn]] void throw_errno(const std::string& what);

}  // namespace genesis
