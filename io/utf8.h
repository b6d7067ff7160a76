// UTF-8 as of RFC 3629: no surrogates, nothing above U+10FFFF, no overlong forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace genesis {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Whether a byte goes on with a character.
constexpr bool utf8_continues(char byte) { return (uint8_t(byte) & 0xc0) == 0x80; }

// In valid text: the length of the character that begins with this byte, the character at a byte, and the
// character that ends before a byte. `at` must be where a character begins.
constexpr size_t utf8_length(char first) {
  const uint8_t byte = uint8_t(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}
char32_t utf8_at(std::string_view text, size_t at);
char32_t utf8_before(std::string_view text, size_t at);

// The length of the longest prefix of valid text that is whole characters, and at most `limit` bytes.
size_t whole_prefix(std::string_view text, size_t limit);

// The length of the longest prefix of whole, valid characters.
size_t utf8_valid_prefix(std::string_view bytes);
// Whether the bytes are the beginning, and no more, of one valid character.
bool utf8_unfinished(std::string_view bytes);

}  // namespace genesis
