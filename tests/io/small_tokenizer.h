// A tokenizer of few pieces, learned from the design page, for tests.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "io/file.h"
#include "io/tokenizer.h"

namespace genesis {

inline std::string design_page() { return read_text_file(GENESIS_SOURCE_DIR "/docs/design.md"); }

// Learns from one text and puts the model at `path`.
inline Tokenizer learn(const std::string& path, const std::string& text, const TokenizerOptions& options) {
  std::optional<std::string> rest = text;
  replace_text_file(path, Tokenizer::train(options, [&] { return std::exchange(rest, std::nullopt); }));
  return Tokenizer(path);
}

inline Tokenizer small_tokenizer(const std::string& path) {
  return learn(path, design_page(), {.vocab_size = 600});
}

}  // namespace genesis
