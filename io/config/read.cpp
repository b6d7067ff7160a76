// Text and overrides to a Config, by the table.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>

#include "io/config.h"
#include "io/config/check.h"
#include "io/config/table.h"
#include "io/config/yaml.h"
#include "io/file.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

using config::Field;
using config::Section;

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// Insertions, deletions and replacements that turn `a` into `b` (Wagner & Fischer 1974).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

const Section* find_section(const std::string& path) {
  for (const Section& section : config::table()) {
    if (section.path == path) return &section;
  }
  return nullptr;
}

const Field* find_field(const std::string& path) {
  for (const Section& section : config::table()) {
    for (const Field& field : section.fields) {
      if (field.path == path) return &field;
    }
  }
  return nullptr;
}

// "did you mean ...": the key spelt most nearly alike, or of the same name in the section spelt most nearly alike.
std::string nearest_key(const std::string& unknown) {
  const std::string name = last_part(unknown);
  std::string nearest;
  std::pair<size_t, size_t> least(std::max<size_t>(1, name.size() / 2) + 1, 0);
  const auto depth = [](const std::string& path) { return std::count(path.begin(), path.end(), '.'); };
  const auto consider = [&](const std::string& path) {
    const size_t whole = edit_distance(unknown, path);
    const bool same_name = last_part(path) == name;
    if (!same_name && depth(path) != depth(unknown)) return;
    const std::pair<size_t, size_t> distance(same_name ? std::min<size_t>(1, whole) : whole, whole);
    if (distance >= least) return;
    nearest = path;
    least = distance;
  };
  for (const Section& section : config::table()) {
    if (!section.path.empty()) consider(section.path);
    for (const Field& field : section.fields) consider(field.path);
  }
  if (!nearest.empty()) return "did you mean " + nearest + "?";
  return "--help-config lists all keys";
}

// All that a pipe or a terminal gives. It is a config: more than 16 MiB are something else, maybe without an end.
std::string read_stream(std::istream& in, const std::string& name) {
  constexpr size_t kMost = size_t(16) << 20;
  if (!in) throw_errno("cannot read " + name);
  std::string text(kMost + 1, '\0');
  in.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(in.gcount()));
  check(!in.bad(), "cannot read " + name);
  check(text.size() <= kMost, name + ": expected a config, found more than 16 MiB");
  return text;
}

struct Override {
  const Field* field;
  std::string value;
};

// "--optim.lr=3e-4".
Override parse_override(const std::string& argument) {
  const size_t equals = std::min(argument.find('='), argument.size());
  const bool option = argument.starts_with('-');
  const std::string path = argument.starts_with("--") ? argument.substr(2, equals - 2) : "";
  const Field* field = find_field(path);
  if (equals == argument.size() || path.empty()) {
    check(field == nullptr, fmt::format("{0}: expected {0}=value", argument));
    throw Error(
        fmt::format("{}: {}; a field of the config is set by --section.key=value, as in --optim.lr=3e-4",
                    argument, option ? "there is no such option" : "was not expected"));
  }
  check(field != nullptr,
        fmt::format("{}: unknown key {}; {}", argument, path,
                    find_section(path) ? "it is a section: set one of its keys" : nearest_key(path)));
  return {field, argument.substr(equals + 1)};
}

struct Reader {
  Config result;
  config::Origins given;

  void read_field(const Field& field, const Yaml& node) {
    field.read(node, result);
    given[field.path] = node.where;
  }

  void read_section(const std::string& path, const Yaml& node) {
    for (const auto& [key, value] : node.entries) {
      const std::string inner = path.empty() ? key : path + "." + key;
      check(key.find('.') == std::string::npos,
            fmt::format("{}: unknown key {}; a key of a section stands below the section's name", value.where,
                        inner));
      if (const Field* field = find_field(inner)) {
        read_field(*field, value);
      } else if (!key.empty() && find_section(inner)) {
        check(value.kind == Yaml::Kind::map,
              fmt::format("{}: {}: expected a section, with keys of its own, found {}", value.where, inner,
                          describe(value)));
        read_section(inner, value);
      } else {
        throw Error(fmt::format("{}: unknown key {}; {}", value.where, inner, nearest_key(inner)));
      }
    }
  }

  void read_override(const std::string& argument) {
    const auto [field, value] = parse_override(argument);
    Yaml node;
    if (value.starts_with('[') || value.starts_with('{')) {
      node = parse_yaml(value, argument);
    } else {
      check_scalar(value, argument);
      node = {.kind = Yaml::Kind::scalar, .where = argument, .text = value};
    }
    read_field(*field, node);
  }

  void check_complete(const std::string& name) const {
    for (const Section& section : config::table()) {
      for (const Field& field : section.fields) {
        check(!field.required || given.contains(field.path),
              fmt::format("{}: {} is missing; expected {}", name, field.path, field.expected));
      }
    }
  }
};

template <class Which>
std::string differences(const Config& held, const Config& wanted, const Which& counts) {
  std::string out;
  for (const Section& section : config::table()) {
    for (const Field& field : section.fields) {
      if (!counts(field)) continue;
      const auto& part = field.fixed_part ? field.fixed_part : field.print;
      if (part(held) == part(wanted)) continue;
      const std::string was = field.print(held), is = field.print(wanted);
      out += fmt::format("{}{} was {}, is {}", out.empty() ? "" : "; ", field.path, was, is);
    }
  }
  return out;
}

}  // namespace

Config parse_config(std::string_view text, const std::string& name, std::span<const std::string> overrides) {
  const Yaml root = parse_yaml(text, name);
  check(root.kind == Yaml::Kind::map,
        fmt::format("{}: expected sections such as model: and data:, found {}", root.where, describe(root)));
  Reader reader;
  reader.read_section("", root);
  for (const std::string& argument : overrides) reader.read_override(argument);
  reader.check_complete(name);
  config::check_together(reader.result, reader.given, name);
  return reader.result;
}

Config load_config(const std::string& path, std::span<const std::string> overrides) {
  check_overrides(overrides);  // an option that there is not is named before the file's own faults
  // Opened by its name it would be another pipe, that nobody may be writing to any more.
  if (path == "-" || path == "/dev/stdin")
    return parse_config(read_stream(std::cin, "standard input"), "standard input", overrides);
  using std::filesystem::file_type;
  std::error_code unknown;
  const file_type type = std::filesystem::status(path, unknown).type();
  const bool stream = type == file_type::fifo || type == file_type::character;
  std::ifstream pipe;
  if (stream) pipe.open(path, std::ios::binary);
  return parse_config(stream ? read_stream(pipe, path) : read_text_file(path), path, overrides);
}

void check_overrides(std::span<const std::string> overrides) {
  for (const std::string& argument : overrides) parse_override(argument);
}

std::string config_differences(const Config& held, const Config& wanted) {
  return differences(held, wanted, [](const Field& field) { return field.fixed; });
}

std::string config_changes(const Config& held, const Config& wanted,
                           std::span<const std::string_view> fields) {
  return differences(held, wanted, [&](const Field& field) {
    return std::find(fields.begin(), fields.end(), field.path) != fields.end();
  });
}

}  // namespace genesis
