#include "io/document_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "io/json_line.h"
#include "io/utf8.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Names the encodings whose byte-order marks are no UTF-8.
void check_encoding(std::string_view begin, const std::string& path) {
  const bool wide = begin.starts_with(std::string_view("\xff\xfe\0\0", 4)) ||
                    begin.starts_with(std::string_view("\0\0\xfe\xff", 4));
  const bool half = begin.starts_with("\xff\xfe") || begin.starts_with("\xfe\xff");
  const std::string name = wide ? "UTF-32" : "UTF-16";
  check(!wide && !half, path + ": is " + name +
                            " by its byte-order mark, not UTF-8; convert it first: iconv -f " + name +
                            " -t UTF-8");
}

// The text of a file in pieces of whole, checked characters.
class Utf8Source {
 public:
  Utf8Source(const std::string& path, const OnNotice& notice)
      : path_(path == kStandardInput ? "standard input" : path), bytes_(open_bytes(path, notice)) {}

  // Adds the next piece to `text`; false at the end.
  bool append(std::string& text) {
    std::string piece = unfinished_;
    piece.resize(unfinished_.size() + kMaxBlock);
    const size_t got = bytes_->read({piece.data() + unfinished_.size(), kMaxBlock});
    piece.resize(unfinished_.size() + got);
    const bool at_end = got < kMaxBlock;
    if (position_ == 0) check_encoding(piece, path_);
    size_t whole = piece.size();
    if (!at_end) {  // a character may go on in the next piece
      const size_t longest = std::min<size_t>(piece.size(), 3);
      for (size_t n = 1; n <= longest; ++n) {
        if (utf8_unfinished(std::string_view(piece).substr(piece.size() - n))) whole = piece.size() - n;
      }
    }
    if (!simdjson::validate_utf8(piece.data(), whole)) refuse(piece);
    text.append(piece, 0, whole);
    unfinished_ = piece.substr(whole);
    position_ += int64_t(whole);
    return whole > 0;
  }

  int64_t consumed() const { return bytes_->consumed(); }
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void refuse(const std::string& piece) const {
    const size_t at = utf8_valid_prefix(piece);
    throw Error(path_ + ": is not UTF-8 at byte " + std::to_string(position_ + int64_t(at)) +
                " of its text (value " + std::to_string(uint8_t(piece[at])) +
                "); convert it first, with iconv say");
  }

  const std::string path_;
  std::unique_ptr<ByteSource> bytes_;
  std::string unfinished_;  // the first bytes of a character
  int64_t position_ = 0;    // of `unfinished_` in the text
};

class PlainReader : public DocumentReader {
 public:
  PlainReader(const std::string& path, const CorpusOptions& options, CorpusFindings& findings)
      : source_(path, options.notice), separator_(options.separator), findings_(findings) {
    if (!refill()) return;
    ++findings_.plain_files;
    if (options.format == TextFormat::by_name) check_not_jsonl();
  }

  std::optional<TextBlock> next() override {
    while (true) {
      const std::string_view rest = std::string_view(text_).substr(begin_);
      const size_t end = separator_.empty() ? std::string_view::npos : rest.find(separator_);
      if (end <= kMaxBlock) {
        ++findings_.separators;
        begin_ += end + separator_.size();
        if (auto block = document_end(rest.substr(0, end))) return block;
      } else if (rest.size() >=
                 kMaxBlock + separator_.size()) {  // no separator begins in the first kMaxBlock
        const std::string_view part = rest.substr(0, whole_prefix(rest, kMaxBlock));
        begin_ += part.size();
        inside_ = true;
        return TextBlock{std::string(part), false, false};
      } else if (!refill()) {
        if (finished_) return std::nullopt;
        finished_ = true;
        return document_end(std::string_view(text_).substr(begin_));
      }
    }
  }
  int64_t consumed() const override { return source_.consumed(); }

 private:
  std::optional<TextBlock> document_end(std::string_view text) {
    if (text.empty() && !inside_) return std::nullopt;
    inside_ = false;
    return TextBlock{std::string(text), true, false};
  }

  // What looks like JSONL under another name would be learned, braces and all.
  void check_not_jsonl() const {
    std::string_view line = text_;
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    const size_t begin = line.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return;
    line.remove_prefix(begin);
    const size_t end = line.find('\n');
    const bool whole = end != std::string_view::npos || text_.size() + 3 < kMaxBlock;
    line = line.substr(0, end);
    std::string text;
    const bool json =
        begins_as_json_object(line) && !(whole && read_field(line, "", text).kind == "is not JSON");
    check(!json, source_.path() +
                     ": begins as JSON lines do but is not named so: say --format jsonl, or --format text "
                     "to take it as it is");
  }

  bool refill() {
    text_.erase(0, begin_);
    begin_ = 0;
    return source_.append(text_);
  }

  Utf8Source source_;
  const std::string& separator_;
  CorpusFindings& findings_;
  std::string text_;  // read; from begin_ on not given out
  size_t begin_ = 0;
  bool inside_ = false;  // part of a document was given out
  bool finished_ = false;
};

class JsonlReader : public DocumentReader {
 public:
  JsonlReader(const std::string& path, const CorpusOptions& options, CorpusFindings& findings)
      : name_(path == kStandardInput ? "standard input" : path),
        bytes_(open_bytes(path, options.notice)),
        options_(options),
        findings_(findings) {
    append();
    check_encoding(text_, name_);
    if (text_.starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
    const size_t first = text_.find_first_not_of(" \t\r\n", begin_);
    check(first == std::string::npos || text_[first] != '[',
          name_ + ": is a JSON array; expected an object a line: jq -c '.[]' makes that of it");
  }

  std::optional<TextBlock> next() override {
    while (at_ == document_.size()) {
      if (!next_line()) return std::nullopt;
      if (line_.find_first_not_of(" \t\r") != std::string_view::npos) parse();
    }
    const std::string_view rest = std::string_view(document_).substr(at_);
    const std::string_view part = rest.substr(0, whole_prefix(rest, kMaxBlock));
    at_ += part.size();
    return TextBlock{std::string(part), at_ == document_.size(), false};
  }
  int64_t consumed() const override { return bytes_->consumed(); }

 private:
  bool append() {
    const size_t before = text_.size();
    text_.resize(before + kMaxBlock);
    text_.resize(before + bytes_->read({text_.data() + before, kMaxBlock}));
    return text_.size() > before;
  }

  bool next_line() {
    size_t end = text_.find('\n', begin_);
    while (end == std::string::npos) {
      text_.erase(0, begin_);
      begin_ = 0;
      const size_t searched = text_.size();
      if (!append()) break;
      end = text_.find('\n', searched);
    }
    line_ = std::string_view(text_).substr(begin_, end - begin_);
    if (end == std::string::npos && line_.empty()) return false;
    begin_ += line_.size() + (end == std::string::npos ? 0 : 1);
    ++number_;
    return true;
  }

  void parse() {
    document_.clear();
    at_ = 0;
    const LineProblem problem = read_field(line_, options_.field, document_);
    const bool first = !std::exchange(any_, true);
    if (!problem) return;
    document_.clear();
    const std::string message =
        name_ + ": line " + std::to_string(number_) + " " + problem.kind + problem.detail;
    if (options_.skip_invalid) {
      auto& skipped = findings_.skipped[problem.kind];
      if (skipped.lines++ == 0) skipped.first = message;
      return;
    }
    check(!(first && problem.unfinished && begins_with_brace()),
          message +
              ": is it an object over several lines? Expected an object a line: jq -c . makes that of it");
    throw Error(message + "; --skip-invalid leaves such lines out");
  }
  bool begins_with_brace() const { return line_[line_.find_first_not_of(" \t\r")] == '{'; }

  const std::string name_;
  std::unique_ptr<ByteSource> bytes_;
  const CorpusOptions& options_;
  CorpusFindings& findings_;
  std::string text_;  // read; from begin_ on not parsed
  size_t begin_ = 0;
  std::string_view line_;  // in text_
  int64_t number_ = 0;     // of the line
  bool any_ = false;       // a line with something in it was met
  std::string document_;
  size_t at_ = 0;  // given out of it
};

bool is_named_jsonl(const std::string& path) {
  std::string name = lower_case(path);
  for (const std::string extension : kCompressed) {
    if (name.ends_with(extension)) name.resize(name.size() - extension.size());
  }
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
}

}  // namespace

std::unique_ptr<DocumentReader> open_documents(const std::string& path, const CorpusOptions& options,
                                               CorpusFindings& findings) {
  const bool jsonl =
      options.format == TextFormat::by_name ? is_named_jsonl(path) : options.format == TextFormat::jsonl;
  if (jsonl) return std::make_unique<JsonlReader>(path, options, findings);
  return std::make_unique<PlainReader>(path, options, findings);
}

}  // namespace genesis
