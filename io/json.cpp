#include "io/json.h"

#include <set>
#include <vector>

#include "kernels/common/error.h"

namespace genesis {

nlohmann::json parse_json(std::string_view text, const std::string& name, size_t max_depth) {
  // nlohmann's lexer takes a NUL for the end of its input and would accept anything after it.
  check(text.find('\0') == std::string_view::npos, name + ": not JSON: it holds a NUL byte");
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> open;  // the keys seen in each object that is open; empty for an array
  const auto on_event = [&](int, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start || event == Event::array_start) {
      if (open.size() == max_depth) {
        throw Error(name + ": not what was expected: nested deeper than " + std::to_string(max_depth));
      }
      open.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      open.pop_back();
    } else if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open.back().insert(key).second) throw Error(name + ": the key '" + key + "' appears twice");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, on_event);
  } catch (const nlohmann::json::exception& error) {
    throw Error(name + ": not JSON: " + error.what());
  }
}

}  // namespace genesis
