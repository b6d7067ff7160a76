// What must hold between fields.
#pragma once

#include <map>
#include <string>

#include "io/config.h"

namespace genesis::config {

// Where each field that was given stands: "run.yaml:12".
using Origins = std::map<std::string, std::string>;

// Throws Error, naming the fields and where the first of them that was given stands; `name` if none was.
void check_together(const Config& config, const Origins& origins, const std::string& name);

}  // namespace genesis::config
