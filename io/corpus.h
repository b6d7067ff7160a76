// Documents from text files, streamed: memory does not grow with the corpus, nor with a plain-text document.
//
// Plain text: a file is a document, or a separator stands between documents. JSONL (told by the name: .jsonl,
// .ndjson or .json, in upper or lower case): a line is a document, its text in one string field; a line is held
// whole, and a byte-order mark before the first is skipped. Both may be compressed (.gz, .zst, .zstd), or come
// from a pipe. Documents without text are left out. Text comes as it is, line ends and all.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace genesis {

enum class TextFormat { by_name, text, jsonl };

struct CorpusOptions {
  std::vector<std::string> files;  // read in this order
  std::string separator = {};  // between the documents of a plain text file, and part of none; empty: no such
  std::string field = "text";  // of a JSONL line
  TextFormat format = TextFormat::by_name;
  bool skip_invalid = false;                                 // leave out JSONL lines that give no text
  std::function<void(const std::string&)> notice = nullptr;  // told what is waited for
};

// What reading has met.
struct CorpusFindings {
  struct Skipped {
    int64_t lines = 0;
    std::string first;  // the first of them, as an error would name it
  };
  std::map<std::string, Skipped> skipped;  // JSONL lines left out, by reason
  int64_t plain_files = 0;                 // with text
  int64_t separators = 0;                  // in them
};

// A part of a document: whole characters, at most kMaxBlock bytes.
struct TextBlock {
  std::string text;
  bool ends_document = false;
  bool held_out = false;
};
constexpr size_t kMaxBlock = size_t(1) << 18;

class DocumentReader;

class Corpus {
 public:
  // The text from byte `held_out_from` of the corpus on is marked held out, beginning with the first line or
  // document that starts there or later; a document that goes on there is cut into two.
  explicit Corpus(CorpusOptions options, int64_t held_out_from = INT64_MAX);
  ~Corpus();

  // The next block, or nullopt at the end. Throws Error, naming the file and the byte or line, for what
  // cannot be read: a file, compressed data, bytes that are not UTF-8, a line that is not JSON or lacks the
  // field; what is named as plain text and begins as JSONL; at the end, a separator that occurred nowhere.
  std::optional<TextBlock> next();

  const CorpusFindings& findings() const { return findings_; }

  // Bytes of the files themselves: all of them (0 where one is a pipe or the like), and those read so far.
  int64_t file_bytes() const { return file_bytes_; }
  int64_t consumed() const;

 private:
  std::optional<TextBlock> next_read();
  void check_separator() const;
  void hold_out(TextBlock& block);

  CorpusOptions options_;
  CorpusFindings findings_;
  const int64_t held_out_from_;
  int64_t file_bytes_ = 0;
  size_t next_file_ = 0;
  int64_t finished_bytes_ = 0;  // of the files before the one that is open
  std::unique_ptr<DocumentReader> reader_;
  int64_t position_ = 0;  // bytes of text given out
  bool inside_ = false;   // a document goes on
  bool held_out_ = false;
  std::optional<TextBlock> rest_;  // of a block that was cut in two
};

}  // namespace genesis
