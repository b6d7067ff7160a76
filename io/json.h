// JSON from files that may be damaged or hostile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace genesis {

// Parses one JSON value. Beyond what JSON's grammar forbids, refuses a key that appears twice in an object,
// nesting deeper than `max_depth` objects and arrays, and a NUL byte. Throws Error that begins with `name`.
nlohmann::json parse_json(std::string_view text, const std::string& name, size_t max_depth);

}  // namespace genesis
