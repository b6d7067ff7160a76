// Texts that are hard for a tokenizer.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace genesis {

inline std::string utf8(char32_t c) {
  if (c < 0x80) return {char(c)};
  if (c < 0x800) return {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  if (c < 0x10000) return {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  return {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 0x3f)), char(0x80 | (c >> 6 & 0x3f)),
          char(0x80 | (c & 0x3f))};
}

// Random text: words of the vocabulary, whitespace of every kind, any character at all, and what is special
// to SentencePiece.
inline std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kBits = {"a",
                                                 " ",
                                                 "  ",
                                                 "\n",
                                                 "\r\n",
                                                 "\t",
                                                 " the",
                                                 "kernel",
                                                 "\xe2\x96\x81",
                                                 "\xe2\x96\x85",
                                                 "<0x0A>",
                                                 "</s>",
                                                 "<unk>",
                                                 " graph",
                                                 "0123",
                                                 "e\xcc\x81",
                                                 "\xc2\xa0",
                                                 "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80",
                                                 std::string(1, '\0'),
                                                 "\xef\xbb\xbf",
                                                 "\xe2\x80\xa8",
                                                 "\x7f"};
  std::string text;
  for (auto n = random() % 30; n > 0; --n) {
    if (random() % 4 > 0) {
      text += kBits[random() % kBits.size()];
    } else {
      char32_t c = random() % (random() % 2 ? 0x3000 : 0x110000);
      if (c >= 0xd800 && c < 0xe000) c = 'x';
      text += utf8(c);
    }
  }
  return text;
}

}  // namespace genesis
