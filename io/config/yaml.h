// YAML as config files need it: the syntax of YAML 1.2 read by yaml-cpp, less everything that surprises.
// Refused: duplicate keys, anchors, aliases, merge keys, tags, a second document, tabs before a key, control
// characters, text that is not UTF-8, an empty file. Scalars stay text: what they mean is the field's to say.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace genesis {

struct Yaml {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  bool quoted = false;           // scalar: written in quotes or as a block
  std::string where = {};        // "run.yaml:12", its own place or its key's: begins a message
  std::string text = {};         // scalar
  std::vector<Yaml> items = {};  // list
  std::vector<std::pair<std::string, Yaml>> entries = {};  // map, in the file's order
};

// `name` stands for the file in messages. Throws Error.
Yaml parse_yaml(std::string_view text, const std::string& name);

// Throws Error that begins with `where` unless `text` is UTF-8 without control characters; parse_yaml lets no
// other scalar through.
void check_scalar(std::string_view text, const std::string& where);

// What a node is, for a message: "12", "\"12\" in quotes", "a list", "a section", "nothing".
std::string describe(const Yaml& node);

// A scalar that parse_yaml reads back as the same text, in quotes where it needs them.
std::string yaml_scalar(const std::string& text);

}  // namespace genesis
