// A corpus as token ids on disk: PREFIX.bin and PREFIX.idx in the layout of Megatron-LM's indexed dataset,
// and PREFIX.json with what bits-per-byte and the tokenizer check need.
//
// PREFIX.bin   the ids of all documents, one after another: u16 where the vocabulary has at most 65,536
//              pieces, else i32. Each document ends with the tokenizer's end-of-document id.
// PREFIX.idx   "MMIDIDX\0\0", u64 version = 1, u8 id type (8 = u16, 4 = i32), u64 sequences, u64 document
//              entries, i32 length of each sequence in ids, i64 byte offset of each in .bin, i64 first
//              sequence of each document, and the number of sequences. A document is one sequence unless it
//              has over kMaxSequence ids.
// PREFIX.json  {"format": "genesis-tokens", "version": 1, "tokenizer": hash, "vocab_size", "eod", "tokens",
//              "documents", "bytes"}; bytes is the UTF-8 length of the text, end-of-document ids not counted.
// All numbers are little-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/dataset_identity.h"
#include "io/file.h"
#include "io/mapped_file.h"
#include "io/output_claim.h"
#include "io/tokenizer.h"

namespace genesis {

constexpr char kIndexMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr size_t kIndexHeader = 34;  // bytes before the lengths
constexpr uint8_t kI32Code = 4, kU16Code = 8;
constexpr int64_t kMaxU16Vocabulary = 65536;
constexpr int64_t kMaxSequence = int64_t(1) << 30;  // a length is an i32

// PREFIX + ".bin", ".idx" or ".json".
std::filesystem::path dataset_file(const std::filesystem::path& prefix, const char* extension);

// What PREFIX.json holds.
struct DatasetInfo {
  std::string tokenizer_hash;
  int64_t vocab_size = 0;
  int32_t eod = 0;
  int64_t tokens = 0;  // end-of-document ids included
  int64_t documents = 0;
  int64_t bytes = 0;  // UTF-8 bytes of the text
};

// A dataset opened for reading, memory-mapped. The constructor checks all three files against each other and
// every id against the vocabulary, and throws Error naming the file and what is wrong with it.
class TokenDataset {
 public:
  explicit TokenDataset(const std::filesystem::path& prefix);

  const std::filesystem::path& prefix() const { return prefix_; }
  const DatasetInfo& info() const { return info_; }
  int64_t tokens() const { return info_.tokens; }
  int64_t documents() const { return info_.documents; }
  int64_t bytes() const { return info_.bytes; }

  DatasetIdentity identity() const;

  // out[i] = token begin + i. The range must lie in [0, tokens()).
  void read(int64_t begin, std::span<int32_t> out) const;
  // The document that holds a token; where a document begins (tokens() for document documents()).
  int64_t document_of(int64_t token) const;
  int64_t document_begin(int64_t document) const;

  // Throws Error, naming both, unless this is the tokenizer that encoded the data.
  void check_tokenizer(const Tokenizer& tokenizer) const;
  // Throws Error, naming the file and the id's offset in it, if an id is >= vocab_size: for a model whose
  // vocabulary is not the tokenizer's.
  void check_vocabulary(int64_t vocab_size) const;

 private:
  void check_index();
  void check_documents() const;
  int64_t width() const { return wide_ ? 4 : 2; }

  std::filesystem::path prefix_;
  DatasetInfo info_;
  MappedFile bin_, index_;
  bool wide_ = false;  // ids are i32
  int64_t sequences_ = 0;
  const std::byte* pointers_ = nullptr;          // in index_: i64 [sequences_]
  const std::byte* document_entries_ = nullptr;  // in index_: i64 [documents() + 1]
};

// Writes a dataset under temporary names; finish() makes it appear under its own, the JSON last, so that a
// killed run leaves nothing that opens. Destroyed before finish(), it removes what it wrote. Throws Error if the
// dataset is being written by another writer.
class DatasetWriter {
 public:
  DatasetWriter(const std::filesystem::path& prefix, int64_t vocab_size, int32_t eod,
                std::string tokenizer_hash);
  ~DatasetWriter();
  // What a process that is killed leaves behind and the next one writes over.
  std::vector<std::string> temporaries() const;
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  // Adds ids that stand for `bytes` bytes of text to the document under way.
  void append(std::span<const int32_t> ids, int64_t bytes);
  void end_document();
  int64_t documents() const { return info_.documents; }
  const DatasetInfo& finish();  // throws Error if no document was written

 private:
  bool narrow() const { return info_.vocab_size <= kMaxU16Vocabulary; }
  void end_sequence();
  void flush_lengths();
  void write_index();
  void publish();

  // The files that are written, where links have been followed.
  struct Files {
    explicit Files(const std::filesystem::path& prefix);
    std::string bin, idx, json, lengths;
  };

  std::filesystem::path prefix_;
  DatasetInfo info_;
  Files files_;
  OutputClaim claim_;
  FileWriter bin_, lengths_;
  std::vector<uint16_t> narrow_ids_;  // of one append
  std::vector<int32_t> new_lengths_;  // not yet in the file
  int64_t sequence_ = 0;              // ids in the sequence under way
  int64_t sequences_ = 0;
  std::vector<int64_t> continued_;  // sequences that go on with the document of the one before
};

}  // namespace genesis
