#include "io/config/types.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <regex>
#include <utility>

#include "kernels/common/error.h"

namespace genesis::config {
namespace {

// Numbers of YAML 1.2's core schema (yaml.org/spec/1.2.2, section 10.3.2) in decimal, without leading zeros.
const std::regex& integer_syntax() {
  static const std::regex syntax("[-+]?(0|[1-9][0-9]*)");
  return syntax;
}
const std::regex& real_syntax() {
  static const std::regex syntax(R"([-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?)");
  return syntax;
}

bool matches(const std::string& text, const std::regex& syntax) {
  // The regular expression library recurses by length; no number is this long.
  return text.size() <= 100 && std::regex_match(text, syntax);
}

// None where the text is no number or its value is not finite.
template <class Number>
std::optional<Number> number_in(const std::string& text) {
  const char* begin = text.data() + (!text.empty() && text[0] == '+');
  Number value{};
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What fp32 makes of a number; below its smallest normal one that is 0.
double rounded_to_fp32(double value) {
  using Limits = std::numeric_limits<float>;
  // Half a unit in the last place past the largest number; converting more is undefined.
  constexpr double kOverflow = 0x1.ffffffp127;
  if (std::abs(value) >= kOverflow) return std::copysign(Limits::infinity(), value);
  const float rounded = static_cast<float>(value);
  return std::abs(rounded) < Limits::min() ? 0.0 : double{rounded};
}

bool plain(const Yaml& node) { return node.kind == Yaml::Kind::scalar && !node.quoted; }

// What to write instead of a number that is not written as one.
std::string number_hint(const Yaml& node) {
  if (node.kind != Yaml::Kind::scalar) return "";
  static const std::regex leading_zero("([-+]?)0+([0-9]+)");
  std::smatch match;
  const std::string& text = node.text;
  if (node.quoted && matches(text, real_syntax())) return "write it without quotes";
  if (text.size() <= 100 && std::regex_match(text, match, leading_zero)) {
    return fmt::format("a leading zero means octal to some readers of YAML and nothing to others: write {}",
                       match[1].str() + match[2].str());
  }
  if (text == ".inf" || text == ".nan" || text == "-.inf") return "it has to be finite";
  return "";
}

constexpr std::array<std::pair<const char*, int>, 4> kByteUnits{
    {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}};

}  // namespace

void refuse(const Yaml& node, const std::string& path, const std::string& expected, const std::string& hint) {
  throw Error(fmt::format("{}: {}: expected {}, found {}{}{}", node.where, path, expected, describe(node),
                          hint.empty() ? "" : "; ", hint));
}

std::string Integer::expected() const {
  const std::string kind = multiple == 1 ? "an integer" : fmt::format("a multiple of {}", multiple);
  if (max == std::numeric_limits<int64_t>::max()) return fmt::format("{}, at least {}", kind, min);
  return fmt::format("{} from {} to {}", kind, min, max);
}

int64_t Integer::read(const Yaml& node, const std::string& path) const {
  if (plain(node) && matches(node.text, integer_syntax())) {
    const auto value = number_in<int64_t>(node.text);
    if (value && *value >= min && *value <= max && *value % multiple == 0) return *value;
    refuse(node, path, expected());
  }
  std::string hint = number_hint(node);
  if (plain(node) && matches(node.text, real_syntax())) {
    const double value = number_in<double>(node.text).value_or(0.5);
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (value == std::floor(value) && std::abs(value) <= kExact) hint = fmt::format("write {:.0f}", value);
  }
  refuse(node, path, expected(), hint);
}

std::string Real::expected() const {
  std::string text = "a number";
  if (std::isfinite(min)) text += fmt::format("{} {}", above_min ? " above" : ", at least", min);
  if (std::isfinite(max)) text += fmt::format("{} {}", below_max ? ", below" : ", at most", max);
  return text;
}

double Real::read(const Yaml& node, const std::string& path) const {
  if (plain(node) && matches(node.text, real_syntax())) {
    const auto value = number_in<double>(node.text);
    if (!value) refuse(node, path, expected(), "it does not fit a 64-bit floating-point number");
    const auto allowed = [&](double v) {
      return (above_min ? v > min : v >= min) && (below_max ? v < max : v <= max);
    };
    if (!allowed(*value)) refuse(node, path, expected());
    if (!fp32) return *value;
    const double rounded = rounded_to_fp32(*value);
    const bool vanishes = rounded == 0 && *value != 0;
    if (!std::isfinite(rounded) || vanishes || !allowed(rounded)) {
      refuse(node, path, expected(), fmt::format("computed with in fp32, it would be {}", rounded));
    }
    return *value;
  }
  refuse(node, path, expected(), number_hint(node));
}

// The shortest digits that read back to the same value.
std::string Real::print(double value) const { return fmt::format("{}", value); }

std::string Bytes::expected() const { return "bytes, as 1073741824, 512MiB or 1.5GiB"; }

int64_t Bytes::read(const Yaml& node, const std::string& path) const {
  if (plain(node) && matches(node.text, integer_syntax())) {
    const auto value = number_in<int64_t>(node.text);
    if (value && *value >= 0) return *value;
    refuse(node, path, expected());
  }
  if (plain(node)) {
    for (const auto& [unit, bits] : kByteUnits) {
      if (!node.text.ends_with(unit)) continue;
      const std::string number =
          node.text.substr(0, node.text.find_last_not_of(' ', node.text.size() - 4) + 1);
      const auto value = matches(number, real_syntax()) ? number_in<double>(number) : std::nullopt;
      const double bytes = std::ldexp(value.value_or(-1.0), bits);
      constexpr double kLimit = 0x1p62;
      if (bytes >= 0.0 && bytes < kLimit) return static_cast<int64_t>(bytes);
    }
  }
  refuse(node, path, expected(), number_hint(node));
}

std::string Bytes::print(int64_t value) const {
  for (const auto& [unit, bits] : kByteUnits) {
    const int64_t count = value >> bits;
    if (count > 0 && count << bits == value) return fmt::format("{}{}", count, unit);
  }
  return std::to_string(value);
}

bool Flag::read(const Yaml& node, const std::string& path) const {
  if (plain(node) && node.text == "true") return true;
  if (plain(node) && node.text == "false") return false;
  const bool quoted_word = node.quoted && (node.text == "true" || node.text == "false");
  refuse(node, path, expected(), quoted_word ? "write it without quotes" : "");
}

std::string Text::expected() const { return may_be_empty ? what + ", or ''" : what; }

std::string Text::read(const Yaml& node, const std::string& path) const {
  if (node.kind == Yaml::Kind::null) {
    refuse(node, path, expected(), may_be_empty ? "write '' for none" : "");
  }
  if (node.kind != Yaml::Kind::scalar || (node.text.empty() && !may_be_empty)) {
    refuse(node, path, expected());
  }
  return node.text;
}

Config::Dataset DatasetEntry::read(const Yaml& node, const std::string& path) const {
  Config::Dataset dataset;
  if (node.kind == Yaml::Kind::scalar) {
    dataset.path = Text{}.read(node, path);
    return dataset;
  }
  if (node.kind != Yaml::Kind::map) refuse(node, path, expected());
  for (const auto& [key, value] : node.entries) {
    if (key == "path") {
      dataset.path = Text{}.read(value, path + ".path");
    } else if (key == "weight") {
      dataset.weight = Real{.min = 0.0, .above_min = true, .fp32 = false}.read(value, path + ".weight");
    } else {
      throw Error(
          fmt::format("{}: {}: unknown key {}; a dataset has path and weight", value.where, path, key));
    }
  }
  check(!dataset.path.empty(), fmt::format("{}: {}: path is missing", node.where, path));
  return dataset;
}

std::string DatasetEntry::print(const Config::Dataset& value) const {
  return fmt::format("{{path: {}, weight: {}}}", yaml_scalar(value.path), value.weight);
}

}  // namespace genesis::config
