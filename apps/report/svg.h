// The curves as one picture: SVG that follows the reader's dark or light setting.
#pragma once

#include <string>
#include <vector>

#include "apps/report/curves.h"

namespace genesis {

// The first panel in full width, the others two in a row under it. `names`: of the runs; a legend names them
// where there are several.
std::string svg_of(const std::string& title, const std::vector<std::string>& names,
                   const std::vector<Panel>& panels);

}  // namespace genesis
