#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

#include "io/tokenizer.h"
#include "io/utf8.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

constexpr size_t kMaxSentence = 4096;  // bytes

// The texts cut into sentences for SentencePiece, at most max_bytes of them: where there are more, every
// second, fourth, eighth ... sentence of the corpus, so that the sample is even and the same every time.
class Sentences {
 public:
  explicit Sentences(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // SentencePiece counts U+2581 as a space, leaves out every sentence with U+2585, its mark for an unknown
  // character, and stumbles over NUL: sentences end at these, and they are learned as bytes.
  void add_text(std::string_view text) {
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t length = utf8_length(text[at]);
      const char32_t c = utf8_at(text, at);
      if (c == 0 || c == 0x2581 || c == 0x2585) {
        add_run(text.substr(begin, at - begin));
        begin = at + length;
      }
      at += length;
    }
    add_run(text.substr(begin));
  }

  // SentencePiece stops the program where a required character, its mark for a space, has no count.
  void see_a_space() {
    const bool seen = std::any_of(sentences_.begin(), sentences_.end(),
                                  [](const std::string& s) { return s.find(' ') != std::string::npos; });
    if (!seen) sentences_.emplace_back(" ");
  }

  std::vector<std::string>& all() { return sentences_; }
  int64_t bytes() const { return bytes_; }

 private:
  // Cuts before a space, where no piece is lost, and only in a word that is longer than a sentence, inside
  // it.
  void add_run(std::string_view text) {
    while (text.size() > kMaxSentence) {
      size_t cut = kMaxSentence;
      while (cut > 0 && !(text[cut] == ' ' && text[cut - 1] != ' ')) --cut;
      if (cut == 0) {
        cut = kMaxSentence;
        while (utf8_continues(text[cut])) --cut;
      }
      add_sentence(text.substr(0, cut));
      text.remove_prefix(cut);
    }
    if (!text.empty()) add_sentence(text);
  }

  void add_sentence(std::string_view sentence) {
    if (seen_++ % stride_ != 0) return;
    sentences_.emplace_back(sentence);
    bytes_ += int64_t(sentence.size());
    if (bytes_ <= max_bytes_) return;
    stride_ *= 2;
    bytes_ = 0;
    size_t kept = 0;
    for (size_t i = 0; i < sentences_.size(); i += 2, ++kept) {
      sentences_[kept].swap(sentences_[i]);  // the first one with itself
      bytes_ += int64_t(sentences_[kept].size());
    }
    sentences_.resize(kept);
  }

  const int64_t max_bytes_;
  int64_t bytes_ = 0, seen_ = 0, stride_ = 1;
  std::vector<std::string> sentences_;
};

// Hands the sentences over one by one and frees them: SentencePiece makes its own copy.
class Handover : public sentencepiece::SentenceIterator {
 public:
  explicit Handover(std::vector<std::string>& sentences) : sentences_(sentences) {}
  bool done() const override { return at_ >= sentences_.size(); }
  void Next() override { std::string().swap(sentences_[at_++]); }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string>& sentences_;
  size_t at_ = 0;
};

std::unordered_map<std::string, std::string> arguments(const TokenizerOptions& o) {
  const auto flag = [](bool b) { return std::string(b ? "true" : "false"); };
  return {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(o.vocab_size)},
      {"character_coverage", std::to_string(o.character_coverage)},
      {"split_by_whitespace", flag(o.split_by_whitespace)},
      {"split_digits", flag(o.split_digits)},
      {"max_sentencepiece_length", std::to_string(o.max_piece_length)},
      {"required_chars", "\xe2\x96\x81"},  // a space has no bytes to fall back on: they are those of U+2581
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"max_sentence_length", std::to_string(kMaxSentence)},
      {"hard_vocab_limit", "false"},  // too few pieces are refused below, with their number
      {"unk_id", "0"},
      {"eos_id", "1"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"minloglevel", "2"},
  };
}

void check_options(const TokenizerOptions& o) {
  constexpr int kFewest = 1 + 1 + 256 + 1;  // unknown, end of document, the bytes, and a character at least
  check(o.vocab_size >= kFewest, "a tokenizer has at least " + std::to_string(kFewest) +
                                     " pieces, 256 of them bytes; found " + std::to_string(o.vocab_size));
  check(o.character_coverage >= 0.98 && o.character_coverage <= 1,
        "the character coverage has to be from 0.98 to 1, found " + std::to_string(o.character_coverage));
}

// What SentencePiece found wrong, as its user can act on it.
std::string advice(const std::string& message) {
  if (message.find("smaller than required_chars") == std::string::npos) return message;
  const size_t versus = message.find(" vs ");  // "300 vs 412"
  const size_t digits = versus == std::string::npos ? versus : versus + 4;
  const std::string fewest =
      digits == std::string::npos
          ? ""
          : message.substr(digits, message.find_first_not_of("0123456789", digits) - digits);
  return "its characters, the space and the 258 fixed pieces are " + (fewest.empty() ? "more" : fewest) +
         ": ask for more pieces, or lower the character coverage";
}

}  // namespace

std::string Tokenizer::train(const TokenizerOptions& options,
                             const std::function<std::optional<std::string>()>& next) {
  check_options(options);
  Sentences sentences(options.max_bytes);
  while (const auto text = next()) sentences.add_text(*text);
  check(!sentences.all().empty(), "the tokenizer has no text to learn from");
  const std::string bytes = std::to_string(sentences.bytes());
  sentences.see_a_space();

  Handover handover(sentences.all());
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments(options), &handover, &model);
  check(status.ok(), "cannot learn a tokenizer of " + std::to_string(options.vocab_size) + " pieces from " +
                         bytes + " bytes of text: " + advice(status.ToString()));
  sentencepiece::SentencePieceProcessor processor;
  const bool loads = processor.LoadFromSerializedProto(model).ok();
  require(loads, "SentencePiece cannot read the model it trained");
  check(processor.GetPieceSize() == options.vocab_size,
        bytes + " bytes of text give only " + std::to_string(processor.GetPieceSize()) + " pieces, not " +
            std::to_string(options.vocab_size) + ": ask for at most " +
            std::to_string(processor.GetPieceSize()) + ", or give more text");
  Tokenizer(model, "the tokenizer that was learned");  // throws unless it keeps the promise
  return model;
}

}  // namespace genesis
