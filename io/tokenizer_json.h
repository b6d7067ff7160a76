// A tokenizer as Hugging Face's tokenizers library reads it (github.com/huggingface/tokenizers: tokenizer.json).
#pragma once

#include <optional>
#include <string>

#include "io/tokenizer.h"

namespace genesis {

struct TokenizerJson {
  std::string text;  // of the file
  std::string eod;   // what the end-of-document token is called there
};

// Without special tokens it gives the ids of Tokenizer::encode; with them an end-of-document token goes first. Spaces
// are spaces in its pieces, so that U+2581 is a character like another. Nothing for a SentencePiece model that is not
// one of BPE alone: what it does has no such form.
std::optional<TokenizerJson> tokenizer_json(const Tokenizer& tokenizer);

}  // namespace genesis
