#include "io/tokenizer.h"

#include <sentencepiece_processor.h>

#include <utility>

#include "io/file.h"
#include "io/utf8.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

constexpr char32_t kSpaceMark = 0x2581;  // what SentencePiece writes for a space
constexpr std::string_view kMark = "\xe2\x96\x81";

uint64_t pair_key(char32_t left, char32_t right) { return uint64_t(left) << 32 | right; }

// Whether SentencePiece would take the character for another.
bool must_be_bytes(char32_t c) { return c == 0 || c == kSpaceMark; }

std::string with_spaces(std::string piece) {
  for (size_t at = 0; (at = piece.find(kMark, at)) != std::string::npos; ++at)
    piece.replace(at, kMark.size(), 1, ' ');
  return piece;
}

}  // namespace

Tokenizer::Tokenizer(const std::filesystem::path& model) : Tokenizer(read_text_file(model.string()), model) {}

Tokenizer::Tokenizer(const std::string& bytes, const std::filesystem::path& name)
    : path_(name), processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const auto status = processor_->LoadFromSerializedProto(bytes);
  check(status.ok(), name.string() + ": is not a SentencePiece model");
  hash_ = sum_of(std::as_bytes(std::span(bytes))).xxh3;
  read_pieces();
  check_promise();
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

void Tokenizer::read_pieces() {
  byte_ids_.fill(-1);
  for (int id = 0; id < processor_->GetPieceSize(); ++id) {
    const std::string& piece = processor_->IdToPiece(id);
    if (processor_->IsControl(id) || processor_->IsUnknown(id)) {
      pieces_.emplace_back();
    } else if (processor_->IsByte(id)) {  // "<0x0A>"
      const auto byte = uint8_t(std::stoi(piece.substr(3, 2), nullptr, 16));
      byte_ids_[byte] = id;
      pieces_.emplace_back(1, char(byte));
    } else {
      pieces_.push_back(with_spaces(piece));
      const std::string_view text = pieces_.back();
      for (size_t at = utf8_length(text[0]); at < text.size(); at += utf8_length(text[at])) {
        const char32_t left = utf8_before(text, at), right = utf8_at(text, at);
        inner_pairs_.insert(pair_key(left, right));
        if (left < kAscii && right < kAscii) ascii_pairs_[left * kAscii + right] = true;
      }
    }
  }
  eod_ = processor_->eos_id();
}

void Tokenizer::check_promise() const {
  check(eod_ >= 0 && processor_->IsControl(eod_), path_.string() + ": has no end-of-document (eos) piece");
  for (int32_t id : byte_ids_) {
    check(id >= 0, path_.string() + ": has no byte pieces; train it with byte_fallback");
  }
  check(!processor_->IsUnknown(processor_->PieceToId(kMark)),
        path_.string() +
            ": has no piece for the space, so that spaces would come back as U+2581; train it with "
            "required_chars U+2581");
  // Spaces at every end, compatibility forms, a decomposed accent, a character no vocabulary has.
  const std::string probe =
      "  a  \xef\xbc\xa1\xef\xac\x81\xe2\x91\xa0 e\xcc\x81\xc2\xa0\r\n\t\xf4\x8f\xbf\xbd  ";
  check(decode(encode(probe)) == probe,
        path_.string() +
            ": does not give back the text it is given; train it with identity normalisation, without "
            "a dummy prefix and with extra whitespace kept");
}

bool Tokenizer::joined(char32_t left, char32_t right) const {
  if (left < kAscii && right < kAscii) return ascii_pairs_[left * kAscii + right];
  return inner_pairs_.contains(pair_key(left, right));
}

bool Tokenizer::can_cut(std::string_view text, size_t at) const {
  return at == 0 || at >= text.size() || !joined(utf8_before(text, at), utf8_at(text, at));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  Encoder(*this).encode(text, ids);
  return ids;
}

void Encoder::encode(std::string_view text, std::vector<int32_t>& ids) {
  size_t begin = 0;
  char32_t left = 0;
  for (size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    const char32_t right = utf8_at(text, at);
    if (at > 0 && !tokenizer_.joined(left, right)) {
      encode_part(text.substr(begin, at - begin), ids);
      begin = at;
    }
    left = right;
  }
  if (begin < text.size()) encode_part(text.substr(begin), ids);
}

void Encoder::encode_part(std::string_view part, std::vector<int32_t>& ids) {
  const auto known = known_.find(part);
  if (known != known_.end()) {
    ids.insert(ids.end(), known->second.begin(), known->second.end());
    return;
  }
  std::vector<int32_t> encoded;
  if (must_be_bytes(utf8_at(part, 0))) {  // alone in its part: no piece holds it
    for (char byte : part) encoded.push_back(tokenizer_.byte_ids_[uint8_t(byte)]);
  } else {
    const auto status = tokenizer_.processor_->Encode(part, &encoded);
    check(status.ok(), tokenizer_.path().string() + ": cannot encode: " + status.ToString());
  }
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  if (part.size() > kMaxKnown) return;
  if (known_.size() == kMostKnown) known_.clear();
  known_.emplace(part, std::move(encoded));
}

const std::string& Tokenizer::piece(int32_t id) const {
  check(id >= 0 && id < vocab_size(), path_.string() + ": token " + std::to_string(id) +
                                          " is outside the vocabulary of " + std::to_string(vocab_size()));
  return pieces_[size_t(id)];
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids) text += piece(id);
  return text;
}

std::string StreamDecoder::push(int32_t id) {
  held_ += tokenizer_.piece(id);
  std::string whole;
  size_t at = 0;
  while (at < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(at);
    const size_t valid = utf8_valid_prefix(rest);
    whole += rest.substr(0, valid);
    at += valid;
    if (valid == rest.size() || utf8_unfinished(rest.substr(valid))) break;
    whole += kReplacement;
    ++at;
  }
  held_.erase(0, at);
  return whole;
}

std::string StreamDecoder::finish() {
  const bool unfinished = !held_.empty();
  held_.clear();
  return unfinished ? std::string(kReplacement) : std::string();
}

}  // namespace genesis
