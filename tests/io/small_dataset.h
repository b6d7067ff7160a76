// Token datasets for tests.
#pragma once

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "io/dataset.h"

namespace genesis {

constexpr int32_t kTestEod = 1;

// Documents of the given lengths, end-of-document id included; the other ids count up from `first`, so that
// each id is in the dataset once.
inline void write_dataset(const std::filesystem::path& prefix, const std::vector<int>& lengths,
                          int32_t first = 10, int64_t vocab_size = 100000,
                          const std::string& tokenizer_hash = "0123456789abcdef") {
  DatasetWriter writer(prefix, vocab_size, kTestEod, tokenizer_hash);
  for (int length : lengths) {
    std::vector<int32_t> ids(size_t(length - 1));
    std::iota(ids.begin(), ids.end(), first);
    first += length - 1;
    writer.append(ids, 3 * int64_t(ids.size()));
    writer.end_document();
  }
  writer.finish();
}

inline std::vector<int32_t> all_tokens(const TokenDataset& data) {
  std::vector<int32_t> ids(size_t(data.tokens()));
  data.read(0, ids);
  return ids;
}

}  // namespace genesis
