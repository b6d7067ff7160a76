// What tells one token dataset from another, wherever they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace genesis {

struct DatasetIdentity {
  std::string path;  // where it was found: for messages, no part of what it is
  int64_t tokens = 0, documents = 0;
  std::string hash;  // content_hash of its files
  bool operator==(const DatasetIdentity&) const = default;
};

bool same_content(const DatasetIdentity& a, const DatasetIdentity& b);

// XXH3 (64 bits, 16 hexadecimal digits) of PREFIX.idx and, after it, of blocks of PREFIX.bin: of all its bytes where
// they are at most 64 MiB, else of 1,024 blocks of 64 KiB, the i-th of which begins at byte
// i (bytes - 65,536) / 1,023, rounded down. So terabytes cost as little as 64 MiB. A change between two blocks that
// leaves every length as it was is not seen.
std::string content_hash(std::span<const std::byte> index, std::span<const std::byte> tokens);

}  // namespace genesis
