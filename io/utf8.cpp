#include "io/utf8.h"

namespace genesis {

namespace {

// The length of the valid character at the front; 0 if there is none. `cut` tells whether more bytes could
// make one.
size_t character(std::string_view bytes, bool& cut) {
  cut = false;
  const uint8_t first = uint8_t(bytes[0]);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t length = utf8_length(bytes[0]);
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) {
      cut = true;
      return 0;
    }
    const uint8_t byte = uint8_t(bytes[i]);
    uint8_t low = 0x80, high = 0xbf;
    if (i == 1) {  // RFC 3629, section 4
      if (first == 0xe0) low = 0xa0;
      if (first == 0xed) high = 0x9f;
      if (first == 0xf0) low = 0x90;
      if (first == 0xf4) high = 0x8f;
    }
    if (byte < low || byte > high) return 0;
  }
  return length;
}

}  // namespace

char32_t utf8_at(std::string_view text, size_t at) {
  const size_t length = utf8_length(text[at]);
  if (length == 1) return uint8_t(text[at]);
  char32_t c = uint8_t(text[at]) & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) c = c << 6 | (uint8_t(text[at + i]) & 0x3f);
  return c;
}

char32_t utf8_before(std::string_view text, size_t at) {
  do {
    --at;
  } while (utf8_continues(text[at]));
  return utf8_at(text, at);
}

size_t whole_prefix(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  while (utf8_continues(text[limit])) --limit;
  return limit;
}

size_t utf8_valid_prefix(std::string_view bytes) {
  size_t at = 0;
  bool cut = false;
  while (at < bytes.size()) {
    const size_t length = character(bytes.substr(at), cut);
    if (length == 0) break;
    at += length;
  }
  return at;
}

bool utf8_unfinished(std::string_view bytes) {
  bool cut = false;
  return !bytes.empty() && character(bytes, cut) == 0 && cut;
}

}  // namespace genesis
