#include "io/document_reader.h"

#include <simdjson.h>

#include <algorithm>

#include "io/utf8.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

// The text of a file in pieces of whole, checked characters.
class Utf8Source {
 public:
  explicit Utf8Source(const std::string& path) : path_(path), bytes_(open_bytes(path)) {}

  // Adds the next piece to `text`; false at the end.
  bool append(std::string& text) {
    std::string piece = unfinished_;
    piece.resize(unfinished_.size() + kMaxBlock);
    const size_t got = bytes_->read({piece.data() + unfinished_.size(), kMaxBlock});
    piece.resize(unfinished_.size() + got);
    const bool at_end = got < kMaxBlock;
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

// The length of the longest prefix of at most `limit` bytes that is whole characters.
size_t whole_prefix(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  while (utf8_continues(text[limit])) --limit;
  return limit;
}

class PlainReader : public DocumentReader {
 public:
  PlainReader(const std::string& path, const std::string& separator) : source_(path), separator_(separator) {}

  std::optional<TextBlock> next() override {
    while (true) {
      const std::string_view rest = std::string_view(text_).substr(begin_);
      const size_t end = separator_.empty() ? std::string_view::npos : rest.find(separator_);
      if (end <= kMaxBlock) {
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

  bool refill() {
    text_.erase(0, begin_);
    begin_ = 0;
    return source_.append(text_);
  }

  Utf8Source source_;
  const std::string separator_;
  std::string text_;  // read; from begin_ on not given out
  size_t begin_ = 0;
  bool inside_ = false;  // part of a document was given out
  bool finished_ = false;
};

class JsonlReader : public DocumentReader {
 public:
  JsonlReader(const std::string& path, const std::string& field) : source_(path), field_(field) {}

  std::optional<TextBlock> next() override {
    while (at_ == document_.size()) {
      if (!next_line()) return std::nullopt;
      if (line_.find_first_not_of(" \t\r") != std::string_view::npos) parse();
    }
    const std::string_view rest = document_.substr(at_);
    const std::string_view part = rest.substr(0, whole_prefix(rest, kMaxBlock));
    at_ += part.size();
    return TextBlock{std::string(part), at_ == document_.size(), false};
  }
  int64_t consumed() const override { return source_.consumed(); }

 private:
  bool next_line() {
    size_t end = text_.find('\n', begin_);
    while (end == std::string::npos) {
      text_.erase(0, begin_);
      begin_ = 0;
      const size_t searched = text_.size();
      if (!source_.append(text_)) break;
      end = text_.find('\n', searched);
    }
    line_ = std::string_view(text_).substr(begin_, end - begin_);
    if (end == std::string::npos && line_.empty()) return false;
    begin_ += line_.size() + (end == std::string::npos ? 0 : 1);
    ++number_;
    return true;
  }

  void parse() {
    simdjson::dom::element line;
    const auto broken = parser_.parse(line_.data(), line_.size()).get(line);
    if (broken) refuse("is not JSON: " + std::string(simdjson::error_message(broken)));
    const auto error = line[field_].get(document_);
    if (error == simdjson::NO_SUCH_FIELD) refuse("has no field \"" + field_ + "\"");
    if (error) refuse("is not an object whose field \"" + field_ + "\" is a string");
    at_ = 0;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(source_.path() + ": line " + std::to_string(number_) + " " + what);
  }

  Utf8Source source_;
  const std::string field_;
  std::string text_;  // read; from begin_ on not parsed
  size_t begin_ = 0;
  std::string_view line_;  // in text_
  int64_t number_ = 0;     // of the line
  simdjson::dom::parser parser_;
  std::string_view document_;  // in parser_
  size_t at_ = 0;              // given out of it
};

}  // namespace

std::unique_ptr<DocumentReader> open_documents(const std::string& path, const std::string& separator,
                                               const std::string& field) {
  std::string name = path;
  for (const std::string suffix : {".gz", ".zst"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson"))
    return std::make_unique<JsonlReader>(path, field);
  return std::make_unique<PlainReader>(path, separator);
}

}  // namespace genesis
