// The types of config fields. Each says what it expects, reads a node (throwing Error about field `path`),
// and prints a value so that it reads back equal.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "io/config.h"
#include "io/config/yaml.h"

namespace genesis::config {

// Throws "<where>: <path>: expected <expected>, found <node>" and, where there is one, "; <hint>".
[[noreturn]] void refuse(const Yaml& node, const std::string& path, const std::string& expected,
                         const std::string& hint = "");

// Decimal digits. 010 is refused: octal to some readers of YAML, ten to others. So are 1e3 and 1000.0.
struct Integer {
  using Value = int64_t;
  int64_t min = 0, max = std::numeric_limits<int64_t>::max();
  int64_t multiple = 1;
  std::string expected() const;
  Value read(const Yaml& node, const std::string& path) const;
  std::string print(Value value) const { return std::to_string(value); }
};

// A number of YAML's core schema, 1e-4 included; .inf and .nan are refused. Where fp32 computes with it, so is
// what fp32 makes something else of: a limit that is not allowed (0.99999999999 is 1 there), an infinity, or 0,
// which is what some devices take numbers below the smallest normal one for.
struct Real {
  using Value = double;
  double min = -std::numeric_limits<double>::infinity(), max = std::numeric_limits<double>::infinity();
  bool above_min = false, below_max = false;  // the limit itself is not allowed
  bool fp32 = true;                           // is computed with in fp32
  std::string expected() const;
  Value read(const Yaml& node, const std::string& path) const;
  std::string print(Value value) const;
};

// Bytes as digits, or a number with KiB, MiB, GiB or TiB behind it.
struct Bytes {
  using Value = int64_t;
  std::string expected() const;
  Value read(const Yaml& node, const std::string& path) const;
  std::string print(Value value) const;
};

// true or false; yes, no, on, off and their like are refused.
struct Flag {
  using Value = bool;
  std::string expected() const { return "true or false"; }
  Value read(const Yaml& node, const std::string& path) const;
  std::string print(Value value) const { return value ? "true" : "false"; }
};

struct Text {
  using Value = std::string;
  bool may_be_empty = false;
  std::string what = "a path";
  std::string expected() const;
  Value read(const Yaml& node, const std::string& path) const;
  std::string print(const Value& value) const { return yaml_scalar(value); }
};

// A path, or {path: ..., weight: ...}.
struct DatasetEntry {
  using Value = Config::Dataset;
  std::string expected() const { return "a path or {path: ..., weight: ...}"; }
  Value read(const Yaml& node, const std::string& path) const;
  std::string print(const Value& value) const;
};

// One of the words that name_of gives an enum's values.
template <class E>
struct Choice {
  using Value = E;
  std::vector<E> all;
  std::string expected() const {
    std::string words;
    for (const E e : all) {
      if (!words.empty()) words += e == all.back() ? " or " : ", ";
      words += name_of(e);
    }
    return words;
  }
  Value read(const Yaml& node, const std::string& path) const {
    if (node.kind == Yaml::Kind::scalar) {
      for (const E e : all) {
        if (node.text == name_of(e)) return e;
      }
    }
    refuse(node, path, expected());
  }
  std::string print(Value value) const { return std::string(name_of(value)); }
};

// A list, or a single item without the brackets.
template <class Item>
struct ListOf {
  using Value = std::vector<typename Item::Value>;
  Item item;
  bool may_be_empty = true;
  std::string expected() const { return item.expected() + ", or a list of such"; }
  Value read(const Yaml& node, const std::string& path) const {
    Value values;
    if (node.kind != Yaml::Kind::list) {
      values.push_back(item.read(node, path));
    } else {
      for (size_t i = 0; i < node.items.size(); ++i) {
        values.push_back(item.read(node.items[i], path + "[" + std::to_string(i) + "]"));
      }
    }
    if (values.empty() && !may_be_empty) refuse(node, path, expected(), "the list is empty");
    return values;
  }
  std::string print(const Value& values) const {
    std::string text;
    for (const auto& value : values) text += (text.empty() ? "" : ", ") + item.print(value);
    return "[" + text + "]";
  }
};

}  // namespace genesis::config
