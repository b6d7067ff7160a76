#include "io/json_line.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <optional>
#include <vector>

#include "io/utf8.h"

namespace genesis {

namespace {

// Why a text is not JSON: thrown and caught here alone.
struct Malformed {
  size_t at;
  std::string expected;
};

// Walks over JSON by its grammar and looks at no value. simdjson and nlohmann-json give up at numbers that no
// double holds and at lone surrogates in strings that nobody asked for.
class JsonWalker {
 public:
  explicit JsonWalker(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  bool at_end() const { return at_ == text_.size(); }
  void space() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n')) ++at_;
  }
  bool take(char c) {
    if (at_end() || peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(c == '}' || c == ']' ? std::string("',' or '") + c + "'" : std::string("'") + c + "'");
  }

  // A value, with the white space before it; nested ones are a stack of the brackets that will close them.
  void value() {
    std::string open;
    while (true) {
      space();
      if (take('{')) {
        space();
        if (!take('}')) {
          open += '}';
          key();
          continue;
        }
      } else if (take('[')) {
        space();
        if (!take(']')) {
          open += ']';
          continue;
        }
      } else {
        scalar();
      }
      while (true) {  // a value has ended
        if (open.empty()) return;
        space();
        if (take(',')) {
          if (open.back() == '}') key();
          break;
        }
        expect(open.back());
        open.pop_back();
      }
    }
  }

  // A key with the quotes around it and the colon after it.
  std::string_view key() {
    space();
    const size_t begin = at_;
    string();
    const std::string_view key = text_.substr(begin, at_ - begin);
    space();
    expect(':');
    return key;
  }

 private:
  char peek() const { return text_[at_]; }
  [[noreturn]] void fail(std::string expected) const { throw Malformed{at_, std::move(expected)}; }

  void scalar() {
    if (at_end()) fail("a value");
    if (peek() == '"') return string();
    if (peek() == '-' || is_digit()) return number();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return;
    }
    fail("a value");
  }

  void string() {
    if (!take('"')) fail("a string");
    while (true) {
      while (!at_end() && peek() != '"' && peek() != '\\' && uint8_t(peek()) >= 0x20) ++at_;
      if (take('"')) return;
      if (!take('\\')) fail(at_end() ? "the string's end" : "an escape for a control character");
      if (take('u')) {
        for (int i = 0; i < 4; ++i, ++at_) {
          if (at_end() || !std::isxdigit(uint8_t(peek()))) fail("four hexadecimal digits");
        }
      } else if (at_end() || std::string_view("\"\\/bfnrt").find(peek()) == std::string_view::npos) {
        fail("an escape of JSON");
      } else {
        ++at_;
      }
    }
  }

  bool is_digit() const { return !at_end() && peek() >= '0' && peek() <= '9'; }
  void digits() {
    if (!is_digit()) fail("a digit");
    while (is_digit()) ++at_;
  }
  void number() {
    take('-');
    if (!take('0')) digits();
    if (take('.')) digits();
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      digits();
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += char(c);
  } else if (c < 0x800) {
    text += {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  } else if (c < 0x10000) {
    text += {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  } else {
    text += {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 0x3f)), char(0x80 | (c >> 6 & 0x3f)),
             char(0x80 | (c & 0x3f))};
  }
}

// The four hexadecimal digits of a \uXXXX at `at`; nothing if there is none.
std::optional<char32_t> unicode_escape(std::string_view string, size_t at) {
  if (!string.substr(at).starts_with("\\u")) return std::nullopt;
  return char32_t(std::stoul(std::string(string.substr(at + 2, 4)), nullptr, 16));
}

bool is_surrogate(char32_t c) { return c >= 0xd800 && c < 0xe000; }

// Sets `text` to what a walked string, quotes included, stands for. Gives the place of a surrogate without its
// other half, which is no character.
std::optional<size_t> unescape(std::string_view string, std::string& text) {
  text.clear();
  string.remove_suffix(1);
  for (size_t at = 1; at < string.size();) {
    const size_t escape = std::min(string.find('\\', at), string.size());
    text.append(string, at, escape - at);
    at = escape;
    if (at == string.size()) break;
    if (const auto c = unicode_escape(string, at)) {
      const auto low = *c < 0xdc00 && is_surrogate(*c) ? unicode_escape(string, at + 6) : std::nullopt;
      const bool pair = low && *low >= 0xdc00 && *low < 0xe000;
      if (is_surrogate(*c) && !pair) return at;
      append_utf8(text, pair ? 0x10000 + ((*c - 0xd800) << 10) + (*low - 0xdc00) : *c);
      at += pair ? 12 : 6;
    } else {
      constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
      text += kMeant[kEscapes.find(string[at + 1])];
      at += 2;
    }
  }
  return std::nullopt;
}

const char* kind_of_value(char first) {
  switch (first) {
    case '{':
      return "an object";
    case '[':
      return "an array";
    case 't':
    case 'f':
      return "true or false";
    case 'n':
      return "null";
    case '"':
      return "a string";
    default:
      return "a number";
  }
}

std::string shown(std::string_view line, size_t at) {
  if (at >= line.size()) return "its end";
  const char c = line[at];
  return c >= ' ' && c < 0x7f ? fmt::format("'{}'", c) : fmt::format("the value {}", int(uint8_t(c)));
}

LineProblem not_a_string(std::string_view field, const std::string& what) {
  return {fmt::format("is not an object whose field \"{}\" is a string: {}", field, what), ""};
}

// The fields whose values are strings, where the one that was asked for is missing.
std::string listed(const std::vector<std::string_view>& keys) {
  if (keys.empty()) return "";
  std::string list = "; it has ";
  constexpr size_t kMost = 8, kLongest = 40;  // bytes of a key
  for (size_t i = 0; i < std::min(keys.size(), kMost); ++i) {
    const size_t length = whole_prefix(keys[i], kLongest);
    list.append(i > 0 ? ", " : "")
        .append(keys[i].substr(0, length))
        .append(length < keys[i].size() ? "..." : "");
  }
  return list + (keys.size() > kMost ? ", ..." : "") + ": --field names the one to read";
}

LineProblem walk(std::string_view line, std::string_view field, std::string& text) {
  JsonWalker json(line);
  json.space();
  const bool object = json.take('{');
  std::string_view found;
  std::vector<std::string_view> strings;
  size_t found_at = 0;
  if (!object) {
    json.value();
  } else if (json.space(); !json.take('}')) {
    do {
      std::string_view key = json.key();
      json.space();
      const size_t begin = json.at();
      json.value();
      const std::string_view value = line.substr(begin, json.at() - begin);
      if (value[0] == '"') strings.push_back(key);
      std::string plain;
      const bool escaped = key.find('\\') != std::string_view::npos;
      if (escaped && unescape(key, plain)) continue;
      if ((escaped ? std::string_view(plain) : key.substr(1, key.size() - 2)) == field) {
        found = value;
        found_at = begin;
      }
    } while (json.space(), json.take(','));
    json.expect('}');
  }
  json.space();
  if (!json.at_end()) throw Malformed{json.at(), "the line's end"};
  if (!object)
    return not_a_string(field, std::string("it is ") + kind_of_value(line[line.find_first_not_of(" \t\r")]));
  if (found.empty()) return {fmt::format("has no field \"{}\"", field), listed(strings)};
  if (found[0] != '"') return not_a_string(field, std::string("that is ") + kind_of_value(found[0]));
  if (const auto lone = unescape(found, text)) {
    return {fmt::format("has a lone surrogate in its field \"{}\"", field),
            fmt::format(": {} at byte {} is half a character", found.substr(*lone, 6), found_at + *lone)};
  }
  return {};
}

}  // namespace

LineProblem read_field(std::string_view line, std::string_view field, std::string& text) {
  if (!simdjson::validate_utf8(line.data(), line.size())) {
    const size_t at = utf8_valid_prefix(line);
    return {"is not UTF-8", fmt::format(" at byte {} (value {}); convert it first, with iconv say", at,
                                        int(uint8_t(line[at])))};
  }
  try {
    return walk(line, field, text);
  } catch (const Malformed& found) {
    const bool in_string = found.expected == "the string's end";
    const std::string mark = line.substr(found.at).starts_with("\xef\xbb\xbf") ? ", a byte-order mark" : "";
    return {"is not JSON",
            fmt::format(": expected {} at byte {}, found {}{}", found.expected, found.at,
                        shown(line, found.at), mark),
            found.at == line.size() && !in_string};
  }
}

bool begins_as_json_object(std::string_view text) {
  JsonWalker json(text);
  json.space();
  if (!json.take('{')) return false;
  try {
    json.key();
    return true;
  } catch (const Malformed&) {
    return false;
  }
}

}  // namespace genesis
