// Text and overrides to a Config, by the table.
#include <fmt/format.h>

#include <algorithm>
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

// "did you mean ...": the key spelt most nearly alike, or of the same name in another section.
std::string nearest_key(const std::string& unknown) {
  const std::string name = last_part(unknown);
  std::string nearest;
  size_t nearest_distance = std::max<size_t>(1, name.size() / 2) + 1;
  const auto depth = [](const std::string& path) { return std::count(path.begin(), path.end(), '.'); };
  const auto consider = [&](const std::string& path) {
    size_t distance = nearest_distance;
    if (last_part(path) == name) distance = 1;
    if (depth(path) == depth(unknown)) distance = std::min(distance, edit_distance(unknown, path));
    if (distance >= nearest_distance) return;
    nearest = path;
    nearest_distance = distance;
  };
  for (const Section& section : config::table()) {
    if (!section.path.empty()) consider(section.path);
    for (const Field& field : section.fields) consider(field.path);
  }
  if (!nearest.empty()) return "did you mean " + nearest + "?";
  return "--help-config lists all keys";
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

  // "--optim.lr=3e-4".
  void read_override(const std::string& argument) {
    const size_t equals = argument.find('=');
    check(argument.starts_with("--") && equals != std::string::npos,
          fmt::format("{}: expected --section.key=value, as in --optim.lr=3e-4", argument));
    const std::string path = argument.substr(2, equals - 2), value = argument.substr(equals + 1);
    const Field* field = find_field(path);
    check(field != nullptr,
          fmt::format("{}: unknown key {}; {}", argument, path,
                      !path.empty() && find_section(path) ? "it is a section: set one of its keys"
                                                          : nearest_key(path)));
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
      const std::string was = field.print(held), is = field.print(wanted);
      if (!counts(field) || was == is) continue;
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
  return parse_config(read_text_file(path), path, overrides);
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
