#include "io/dataset.h"

#include <algorithm>
#include <cstring>

#include "io/json.h"
#include "kernels/common/error.h"

namespace genesis {

static_assert(std::endian::native == std::endian::little, "the files are little-endian, and so is the code");

namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);  // the index's arrays are not aligned
  return value;
}

template <class T>
void widen(const std::byte* from, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = int32_t(load<T>(from + i * sizeof(T)));
}

// The largest id, negative ones counting as larger than all.
template <class T>
uint32_t largest(const std::byte* from, int64_t count) {
  const T* ids = reinterpret_cast<const T*>(from);  // a mapping starts on a page
  T max = 0;
  for (int64_t i = 0; i < count; ++i) max = std::max(max, ids[i]);
  return max;
}

DatasetInfo read_info(const std::filesystem::path& path) {
  const auto json = parse_json(read_text_file(path), path.string(), 2);
  try {
    const std::string format = json.at("format");
    const int64_t version = json.at("version");
    check(format == "genesis-tokens" && version == 1,
          path.string() + ": expected format \"genesis-tokens\", version 1; found \"" + format +
              "\", version " + std::to_string(version));
    return {.tokenizer_hash = json.at("tokenizer"),
            .vocab_size = json.at("vocab_size"),
            .eod = json.at("eod"),
            .tokens = json.at("tokens"),
            .documents = json.at("documents"),
            .bytes = json.at("bytes")};
  } catch (const nlohmann::json::exception& e) {
    throw Error(path.string() + ": does not describe a token dataset (" + e.what() +
                "); encode the text again with genesis_tokenize");
  }
}

}  // namespace

std::filesystem::path dataset_file(const std::filesystem::path& prefix, const char* extension) {
  return prefix.string() + extension;
}

TokenDataset::TokenDataset(const std::filesystem::path& prefix)
    : prefix_(prefix),
      info_(read_info(dataset_file(prefix, ".json"))),
      bin_(dataset_file(prefix, ".bin")),
      index_(dataset_file(prefix, ".idx")) {
  check(info_.tokens > 0 && info_.documents > 0, prefix.string() + ": the dataset is empty");
  check_index();
  check_documents();
  check_vocabulary(info_.vocab_size);
}

void TokenDataset::check_index() {
  const std::string name = dataset_file(prefix_, ".idx").string();
  const auto bytes = index_.bytes();
  const size_t size = bytes.size();
  check(size >= kIndexHeader && std::memcmp(bytes.data(), kIndexMagic, sizeof kIndexMagic) == 0,
        name + ": is not a Megatron index (it does not begin with MMIDIDX)");
  const auto version = load<uint64_t>(bytes.data() + 9);
  check(version == 1, name + ": index version " + std::to_string(version) + ", expected 1");
  const auto code = load<uint8_t>(bytes.data() + 17);
  check(code == kU16Code || code == kI32Code,
        name + ": id type " + std::to_string(code) + ", expected 4 (i32) or 8 (u16)");
  wide_ = code == kI32Code;
  sequences_ = load<int64_t>(bytes.data() + 18);
  const auto entries = load<int64_t>(bytes.data() + 26);
  // No count is larger than the file, so that the products below are small.
  const bool sane = sequences_ >= 0 && entries >= 0 && size_t(sequences_) <= size && size_t(entries) <= size;
  check(sane && size == kIndexHeader + size_t(sequences_) * 12 + size_t(entries) * 8,
        name + ": " + std::to_string(size) + " bytes do not hold " + std::to_string(sequences_) +
            " sequences and " + std::to_string(entries) +
            " document entries: the file is cut short or damaged");
  check(entries == info_.documents + 1, name + ": holds " + std::to_string(entries - 1) +
                                            " documents, the .json " + std::to_string(info_.documents));
  const std::byte* lengths = bytes.data() + kIndexHeader;
  pointers_ = lengths + sequences_ * 4;
  document_entries_ = pointers_ + sequences_ * 8;
  int64_t tokens = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    const auto length = load<int32_t>(lengths + i * 4);
    check(length > 0 && load<int64_t>(pointers_ + i * 8) == tokens * width(),
          name + ": sequence " + std::to_string(i) + " does not begin where the one before it ends");
    tokens += length;
  }
  check(tokens == info_.tokens,
        name + ": holds " + std::to_string(tokens) + " tokens, the .json " + std::to_string(info_.tokens));
  const size_t expected = size_t(tokens) * width();
  check(bin_.bytes().size() == expected, dataset_file(prefix_, ".bin").string() + ": " +
                                             std::to_string(bin_.bytes().size()) + " bytes, expected " +
                                             std::to_string(expected));
}

void TokenDataset::check_documents() const {
  const std::string name = dataset_file(prefix_, ".idx").string();
  int64_t previous = -1;
  for (int64_t d = 0; d <= documents(); ++d) {
    const auto sequence = load<int64_t>(document_entries_ + d * 8);
    const bool in_order = d == 0             ? sequence == 0
                          : d == documents() ? sequence == sequences_ && sequence > previous
                                             : sequence > previous && sequence < sequences_;
    check(in_order, name + ": document " + std::to_string(d) + " does not begin after the one before it");
    previous = sequence;
  }
  for (int64_t d = 0; d < documents(); ++d) {
    int32_t last;
    read(document_begin(d + 1) - 1, {&last, 1});
    check(last == info_.eod, dataset_file(prefix_, ".bin").string() + ": document " + std::to_string(d) +
                                 " ends with token " + std::to_string(last) +
                                 ", not with the end of document " + std::to_string(info_.eod));
  }
}

void TokenDataset::check_vocabulary(int64_t vocab_size) const {
  const std::byte* ids = bin_.bytes().data();
  const uint32_t max = wide_ ? largest<uint32_t>(ids, tokens()) : largest<uint16_t>(ids, tokens());
  if (max < vocab_size) return;
  for (int64_t i = 0; i < tokens(); ++i) {
    int32_t id;
    read(i, {&id, 1});
    check(id >= 0 && id < vocab_size, dataset_file(prefix_, ".bin").string() + ": token " +
                                          std::to_string(id) + " at byte " + std::to_string(i * width()) +
                                          " is outside the vocabulary of " + std::to_string(vocab_size));
  }
}

DatasetIdentity TokenDataset::identity() const {
  return {prefix_.string(), tokens(), documents(), content_hash(index_.bytes(), bin_.bytes())};
}

void TokenDataset::check_tokenizer(const Tokenizer& tokenizer) const {
  check(tokenizer.hash() == info_.tokenizer_hash,
        prefix_.string() + ": was encoded with another tokenizer (hash " + info_.tokenizer_hash + ") than " +
            tokenizer.path().string() + " (hash " + tokenizer.hash() +
            "); encode the text again or name the tokenizer it was encoded with");
}

void TokenDataset::read(int64_t begin, std::span<int32_t> out) const {
  require(begin >= 0 && begin + int64_t(out.size()) <= tokens(), "tokens outside the dataset");
  const std::byte* from = bin_.bytes().data() + begin * width();
  if (wide_) {
    widen<int32_t>(from, out);
  } else {
    widen<uint16_t>(from, out);
  }
}

int64_t TokenDataset::document_begin(int64_t document) const {
  if (document == documents()) return tokens();
  const auto sequence = load<int64_t>(document_entries_ + document * 8);
  return load<int64_t>(pointers_ + sequence * 8) / width();
}

int64_t TokenDataset::document_of(int64_t token) const {
  int64_t low = 0, high = documents();  // document_begin(low) <= token < document_begin(high)
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (document_begin(middle) <= token ? low : high) = middle;
  }
  return low;
}

}  // namespace genesis
