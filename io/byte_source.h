// The bytes of a file from front to back, decompressed where it is gzip or zstd.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/input_file.h"

namespace genesis {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the buffer; less only at the end, then 0. Throws Error, naming the file, if it cannot be read, its
  // compressed data is damaged or it ends before its compressed data does.
  virtual size_t read(std::span<char> buffer) = 0;
  // Bytes of the file itself used so far: its size at the end.
  virtual int64_t consumed() const = 0;
};

// Gzip and zstd are told by their first bytes, which no text begins with. A file named .gz, .zst or .zstd that
// is not compressed so is refused, and so are other packings: xz, Parquet, archives. The path "-" is standard
// input; `notice` is told what is waited for.
std::unique_ptr<ByteSource> open_bytes(const std::string& path, const OnNotice& notice = nullptr);

constexpr const char* kCompressed[] = {".gz", ".zst", ".zstd"};  // names end so, in upper or lower case
std::string lower_case(std::string text);                        // ASCII letters alone

}  // namespace genesis
