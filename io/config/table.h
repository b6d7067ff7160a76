// Every field of the config, declared once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/config.h"
#include "io/config/yaml.h"

namespace genesis::config {

struct Field {
  std::string path;      // "train.steps"
  std::string expected;  // "an integer, at least 1"
  std::string unit;      // "tokens"; empty: none
  std::string meaning;
  bool required = false;
  bool fixed = false;  // cannot change once the run has begun
  std::function<void(const Yaml&, Config&)> read;
  std::function<std::string(const Config&)> print;
  // Of a fixed field, the part that is; null: all that is printed.
  std::function<std::string(const Config&)> fixed_part = nullptr;

  std::string name() const { return path.substr(path.rfind('.') + 1); }
};

struct Section {
  std::string path;  // "model.recurrence"; empty: the file's top level
  std::string meaning;
  std::vector<Field> fields;
};

// In the order in which print_config and the documentation show them. A section comes after the one it is in.
const std::vector<Section>& table();

}  // namespace genesis::config
