// What a config would need and do, without doing it.
#pragma once

#include <string>

#include "io/config.h"

namespace genesis {

// Parameters by group, FLOPs a token, tokens a step, memory by use and by choice of recomputation, checkpoint
// size. Allocates nothing of the model. `device_memory` in bytes stands behind recompute: auto without a
// budget.
std::string plan_report(const Config& config, size_t device_memory);

}  // namespace genesis
