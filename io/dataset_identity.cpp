#include "io/dataset_identity.h"

#include "io/xxh3.h"

namespace genesis {

bool same_content(const DatasetIdentity& a, const DatasetIdentity& b) {
  return a.tokens == b.tokens && a.documents == b.documents && a.hash == b.hash;
}

std::string content_hash(std::span<const std::byte> index, std::span<const std::byte> tokens) {
  constexpr size_t kBlock = 65536, kBlocks = 1024;
  Xxh3 hash;
  hash.add(index.data(), index.size());
  if (tokens.size() <= kBlocks * kBlock) {
    hash.add(tokens.data(), tokens.size());
  } else {
    for (size_t i = 0; i < kBlocks; ++i) {
      hash.add(tokens.data() + i * (tokens.size() - kBlock) / (kBlocks - 1), kBlock);
    }
  }
  return hash.digest();
}

}  // namespace genesis
