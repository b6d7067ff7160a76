// A Config as YAML, and the table as documentation.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "io/config.h"
#include "io/config/table.h"

namespace genesis {
namespace {

using config::Field;
using config::Section;

// "train" is at depth 0, "model.recurrence" at 1.
size_t depth(const std::string& path) {
  return static_cast<size_t>(std::count(path.begin(), path.end(), '.'));
}

std::string type_of(const Field& field) {
  return field.unit.empty() ? field.expected : field.expected + " (" + field.unit + ")";
}

// What counts where the key is left out, a value between marks: "required", or "`16`".
std::string default_of(const Field& field, const std::string& mark) {
  const std::string value = field.required ? "required" : mark + field.print(Config{}) + mark;
  return field.fixed ? value + ", fixed" : value;
}

// `text` in lines of at most `width` characters, each after `indent`.
std::string wrapped(const std::string& text, const std::string& indent, size_t width) {
  std::string out, line, word;
  std::istringstream words(text);
  while (words >> word) {
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + indent + line + "\n";
}

// "|" ends a table's cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

constexpr std::string_view kIntroduction = R"(# Config

One YAML file describes a run: `genesis_train run.yaml`. Any key can be set on the command line too, after the file:
`genesis_train run.yaml --optim.lr=3e-4 --train.seed=7`; the last one counts. `--print-config` prints every key with its
value, as YAML that can be used again; `--help-config` prints what follows for a terminal. This page is generated from the table that
reads the file (`genesis_train --help-config=markdown`).

How the file is read. YAML has corners that surprise; here they are errors, with the line and what to write instead:
- A key that is not below, a key that is there twice, a key without a value.
- Numbers are decimal. `1e-4` is a number. `010` is refused (octal to some, ten to others); so are `.inf` and `.nan`,
  and `1e3` or `1000.0` where an integer belongs.
- `true` and `false` are the truth values; `yes`, `no`, `on`, `off`, `True` are refused.
- A number or truth value in quotes is text, and text is not a number.
- Anchors, aliases, merge keys, tags, and a second document are refused; so are tabs before a key, control characters
  and text that is not UTF-8.
- On the command line a value that starts with `[` or `{` is read as YAML, any other is taken as it stands.

A key marked *fixed* cannot change when a run is continued. Single letters (D, H, KV, K, F, V, T) are those of design.md.
)";

}  // namespace

std::string print_config(const Config& config) {
  std::string out;
  for (const Section& section : config::table()) {
    std::string indent;
    if (!section.path.empty()) {
      const size_t level = depth(section.path);
      indent.assign(2 * level, ' ');
      const std::string name = section.path.substr(section.path.rfind('.') + 1);
      out += fmt::format("{}{}{}:\n", level == 0 ? "\n" : "", indent, name);
      indent += "  ";
    }
    for (const Field& field : section.fields) {
      out += fmt::format("{}{}: {}\n", indent, field.name(), field.print(config));
    }
  }
  return out;
}

std::string config_help() {
  constexpr size_t kWidth = 100;
  std::string out =
      "Keys of the config file. Each can be set on the command line too: --section.key=value.\n"
      "fixed: cannot change when a run is continued.\n\n";
  for (const Section& section : config::table()) {
    if (!section.path.empty()) {
      out += fmt::format("\n{}", wrapped(section.path + ": " + section.meaning, "", kWidth));
    }
    for (const Field& field : section.fields) {
      out += fmt::format("  {}: {}; {}{}\n", field.path, type_of(field), field.required ? "" : "default ",
                         default_of(field, ""));
      out += wrapped(field.meaning, "      ", kWidth);
    }
  }
  return out;
}

std::string config_markdown() {
  std::string out(kIntroduction);
  for (const Section& section : config::table()) {
    out += section.path.empty() ? "\n## Top level\n"
                                : fmt::format("\n## {}\n{}\n", section.path, section.meaning);
    out += "\n| key | type | default | meaning |\n|---|---|---|---|\n";
    for (const Field& field : section.fields) {
      out += fmt::format("| `{}` | {} | {} | {} |\n", field.name(), cell(type_of(field)),
                         default_of(field, "`"), cell(field.meaning));
    }
  }
  return out;
}

}  // namespace genesis
