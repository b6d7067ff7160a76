// The bytes of a file from front to back, decompressed where it is gzip or zstd.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

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

// Gzip and zstd are told by their first bytes, which are not valid UTF-8, so that no text is taken for
// either. A file named .gz or .zst that is not compressed so is refused.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

}  // namespace genesis
