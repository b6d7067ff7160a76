#include "engine/graph/graph.h"

#include <fmt/format.h>

#include "kernels/common/error.h"

namespace genesis {

const char* name_of(Role role) {
  constexpr const char* kNames[kRoles] = {"input",  "parameter", "master", "gradient",
                                          "moment", "cache",     "result", "activation"};
  return kNames[int(role)];
}

const char* name_of(Phase phase) {
  constexpr const char* kNames[] = {"begin", "micro", "update"};
  return kNames[int(phase)];
}

ValueId Graph::add_value(Value v) {
  values.push_back(std::move(v));
  return ValueId(values.size()) - 1;
}

ValueId Graph::find(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == name) return ValueId(i);
  }
  return kNone;
}

ValueId Graph::at(std::string_view name) const {
  const ValueId id = find(name);
  check(id != kNone, fmt::format("the graph has no value named '{}'", name));
  return id;
}

std::vector<ValueId> Graph::with_role(Role role) const {
  std::vector<ValueId> ids;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].role == role) ids.push_back(ValueId(i));
  }
  return ids;
}

ValueId Graph::storage_of(ValueId id) const {
  while (value(id).in_place_of != kNone) id = value(id).in_place_of;
  return id;
}

}  // namespace genesis
