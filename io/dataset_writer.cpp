#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "io/dataset.h"
#include "io/mapped_file.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

constexpr size_t kFlush = size_t(1) << 16;  // numbers gathered for one write

std::string temporary(const std::string& file) { return file + ".tmp"; }

std::string folder_of(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? "." : folder.string();
}

// Writes many small numbers as few large pieces.
template <class T>
class NumberWriter {
 public:
  explicit NumberWriter(FileWriter& file) : file_(file) {}
  void put(T number) {
    numbers_.push_back(number);
    if (numbers_.size() == kFlush) flush();
  }
  void flush() {
    file_.write(numbers_.data(), numbers_.size() * sizeof(T));
    numbers_.clear();
  }

 private:
  FileWriter& file_;
  std::vector<T> numbers_;
};

template <class T>
void write_number(FileWriter& file, T number) {
  file.write(&number, sizeof number);
}

}  // namespace

DatasetWriter::Files::Files(const std::filesystem::path& prefix)
    : bin(file_to_replace(dataset_file(prefix, ".bin").string())),
      idx(file_to_replace(dataset_file(prefix, ".idx").string())),
      json(file_to_replace(dataset_file(prefix, ".json").string())),
      lengths(dataset_file(prefix, ".lengths").string()) {}

DatasetWriter::DatasetWriter(const std::filesystem::path& prefix, int64_t vocab_size, int32_t eod,
                             std::string tokenizer_hash)
    : prefix_(prefix),
      info_{.tokenizer_hash = std::move(tokenizer_hash), .vocab_size = vocab_size, .eod = eod},
      files_(prefix),
      claim_(files_.bin),
      bin_(temporary(files_.bin)),
      lengths_(temporary(files_.lengths)) {}

std::vector<std::string> DatasetWriter::temporaries() const {
  return {temporary(files_.lengths), temporary(files_.bin), temporary(files_.idx), temporary(files_.json),
          OutputClaim::lock_file(files_.bin)};
}

DatasetWriter::~DatasetWriter() {
  std::error_code ignored;  // a destructor has nobody to tell
  for (const std::string& file : {files_.lengths, files_.bin, files_.idx, files_.json}) {
    std::filesystem::remove(temporary(file), ignored);
  }
}

void DatasetWriter::append(std::span<const int32_t> ids, int64_t bytes) {
  info_.bytes += bytes;
  while (!ids.empty()) {
    if (sequence_ == kMaxSequence) {
      end_sequence();
      continued_.push_back(sequences_);
    }
    const auto now = ids.first(std::min(ids.size(), size_t(kMaxSequence - sequence_)));
    if (narrow()) {
      narrow_ids_.assign(now.begin(), now.end());
      bin_.write(narrow_ids_.data(), narrow_ids_.size() * sizeof narrow_ids_[0]);
    } else {
      bin_.write(now.data(), now.size_bytes());
    }
    sequence_ += int64_t(now.size());
    info_.tokens += int64_t(now.size());
    ids = ids.subspan(now.size());
  }
}

void DatasetWriter::end_sequence() {
  new_lengths_.push_back(int32_t(sequence_));
  if (new_lengths_.size() == kFlush) flush_lengths();
  ++sequences_;
  sequence_ = 0;
}

void DatasetWriter::flush_lengths() {
  lengths_.write(new_lengths_.data(), new_lengths_.size() * sizeof new_lengths_[0]);
  new_lengths_.clear();
}

void DatasetWriter::end_document() {
  append({&info_.eod, 1}, 0);
  end_sequence();
  ++info_.documents;
}

void DatasetWriter::write_index() {
  flush_lengths();
  lengths_.finish();
  const MappedFile lengths(temporary(files_.lengths));  // too many to hold, perhaps
  FileWriter index(temporary(files_.idx));
  index.write(kIndexMagic, sizeof kIndexMagic);
  write_number(index, uint64_t(1));
  write_number(index, narrow() ? kU16Code : kI32Code);
  write_number(index, sequences_);
  write_number(index, info_.documents + 1);
  index.write(lengths.bytes().data(), lengths.bytes().size());
  NumberWriter<int64_t> numbers(index);
  int64_t pointer = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    numbers.put(pointer);
    int32_t length;
    std::memcpy(&length, lengths.bytes().data() + size_t(i) * sizeof length, sizeof length);
    pointer += length * int64_t(narrow() ? sizeof(uint16_t) : sizeof(int32_t));
  }
  auto continued = continued_.begin();
  for (int64_t i = 0; i < sequences_; ++i) {
    if (continued != continued_.end() && *continued == i) {
      ++continued;
    } else {
      numbers.put(i);
    }
  }
  numbers.put(sequences_);
  numbers.flush();
  index.finish();
}

const DatasetInfo& DatasetWriter::finish() {
  check(info_.documents > 0, prefix_.string() + ": there is no text to put into this dataset");
  require(sequence_ == 0, "a dataset finished inside a document");
  bin_.finish();
  write_index();
  const nlohmann::ordered_json json = {
      {"format", "genesis-tokens"},     {"version", 1},         {"tokenizer", info_.tokenizer_hash},
      {"vocab_size", info_.vocab_size}, {"eod", info_.eod},     {"tokens", info_.tokens},
      {"documents", info_.documents},   {"bytes", info_.bytes},
  };
  const std::string text = json.dump(2) + "\n";
  FileWriter file(temporary(files_.json));
  file.write(text.data(), text.size());
  file.finish();
  publish();
  return info_;
}

void DatasetWriter::publish() {
  // An older dataset of this name stops being one first: its JSON must never describe the new tokens.
  std::filesystem::remove(files_.json);
  sync_folder(folder_of(files_.json));
  for (const std::string& file : {files_.bin, files_.idx, files_.json}) {
    if (std::rename(temporary(file).c_str(), file.c_str()) != 0) throw_errno("cannot replace " + file);
    sync_folder(folder_of(file));
  }
}

}  // namespace genesis
