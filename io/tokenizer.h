// Byte-exact text tokenizer: SentencePiece BPE with byte fallback and identity normalisation.
//
// decode(encode(x)) == x for every valid UTF-8 x. What SentencePiece cannot carry itself, U+2581 (its own
// mark for a space) and NUL, is written as byte pieces, as every character outside the vocabulary is.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace genesis {

struct TokenizerOptions {
  int vocab_size = 4096;                   // pieces in all: 2 control, 256 byte, the rest learned
  double character_coverage = 0.9995;      // the share of the characters that get a piece; the rest is bytes
  bool split_by_whitespace = true;         // a piece is in one word, with the space before it
  bool split_digits = true;                // a digit is always a piece of its own
  int max_piece_length = 16;               // characters
  int64_t max_bytes = int64_t(512) << 20;  // of text to learn from; a longer corpus is sampled evenly
};

class Tokenizer {
 public:
  // Reads a SentencePiece model. Throws Error, naming the file, unless it is one that keeps the promise
  // above: all 256 byte pieces, one for the space, identity normalisation, no dummy prefix, spaces kept, an
  // end-of-document (eos) piece.
  explicit Tokenizer(const std::filesystem::path& model);
  // The same of a model file's bytes; `name` stands for the file.
  Tokenizer(const std::string& bytes, const std::filesystem::path& name);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Learns a model from the texts that `next` yields until nullopt (each valid UTF-8, of any length and script,
  // with spaces or without) and returns the model file's bytes, which the constructor takes. The same texts
  // give the same bytes. Throws Error where the text gives fewer pieces than were asked for, or has more
  // characters, with how many would do.
  static std::string train(const TokenizerOptions& options,
                           const std::function<std::optional<std::string>()>& next);

  int32_t vocab_size() const { return int32_t(pieces_.size()); }
  int32_t eod() const { return eod_; }               // ends each document; decodes to nothing
  const std::string& hash() const { return hash_; }  // XXH3-64 of the model file's bytes, 16 hex digits
  const std::filesystem::path& path() const { return path_; }

  // The ids of valid UTF-8 text, no end of document added. May be called from any number of threads.
  std::vector<int32_t> encode(std::string_view text) const;

  // The bytes that the ids stand for; control pieces stand for none. Throws Error on an id outside
  // [0, vocab_size). Ids that a model made up need not be whole UTF-8: see StreamDecoder.
  std::string decode(std::span<const int32_t> ids) const;
  const std::string& piece(int32_t id) const;

  // Whether encode(text) == encode(text[0, at)) + encode(text[at, end)) whatever the rest of the text: no
  // piece spans the two characters that meet at byte `at`.
  bool can_cut(std::string_view text, size_t at) const;

 private:
  friend class Encoder;
  void read_pieces();
  void check_promise() const;
  bool joined(char32_t left, char32_t right) const;

  static constexpr size_t kAscii = 128;

  std::filesystem::path path_;
  std::string hash_;
  int32_t eod_ = -1;
  std::vector<std::string> pieces_;  // the bytes each id stands for
  std::array<int32_t, 256> byte_ids_{};
  // Characters that stand side by side in a piece, and the ASCII ones of them again, for speed.
  std::unordered_set<uint64_t> inner_pairs_;
  std::bitset<kAscii * kAscii> ascii_pairs_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

// Encodes much text with one tokenizer. The text is encoded part by part between the places where it can be
// cut, words mostly, and a part met before is looked up: 60 times as fast as SentencePiece on the whole text,
// with the same result. One thread at a time.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void encode(std::string_view text, std::vector<int32_t>& ids);  // adds to ids

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  void encode_part(std::string_view part, std::vector<int32_t>& ids);

  static constexpr size_t kMaxKnown = 64;                // bytes of a part that is kept
  static constexpr size_t kMostKnown = size_t(1) << 16;  // parts: some 8 MB

  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> known_;
};

// Decodes a stream of ids to text that is always whole UTF-8: bytes of an unfinished character are held back,
// bytes that can never become a character are replaced by U+FFFD.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(int32_t id);  // what can be shown now
  std::string finish();          // U+FFFD if an unfinished character was held, else nothing

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

}  // namespace genesis
