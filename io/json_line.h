// One JSON object and the text in one of its fields: a line of a JSONL file.
#pragma once

#include <string>
#include <string_view>

namespace genesis {

// Why a line gives no text: the kind, which lines are counted by, and what it is in this line. Empty: it does.
struct LineProblem {
  std::string kind;
  std::string detail;
  bool unfinished = false;  // between two tokens of JSON that goes on
  explicit operator bool() const { return !kind.empty(); }
};

// Sets `text` to the string that a field of the object holds. The line has to be UTF-8 and JSON by the grammar
// of RFC 8259, at any depth. Nothing is asked of the other fields beyond that: no number is too large, no string
// a lone surrogate too many. Of a key that appears twice the last one counts, as in Python and jq.
LineProblem read_field(std::string_view line, std::string_view field, std::string& text);

// Whether text begins as a line of JSONL does: with {"a key":
bool begins_as_json_object(std::string_view text);

}  // namespace genesis
