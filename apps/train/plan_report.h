// What a config would need and do, without doing it.
#pragma once

#include <string>

#include "engine/device/device.h"
#include "engine/time/rates.h"
#include "io/config.h"

namespace genesis {

// Parameters by group, FLOPs a token, tokens a step, memory by use and by choice of recomputation, checkpoint size, on
// a device that is here, whose memory stands behind recompute: auto without a budget. Allocates nothing of the model.
std::string plan_report(const Config& config, const Device& device);

// The same on a card that need not be here, with its memory, the least time of a step, and which micro-batch takes the
// least.
std::string plan_report(const Config& config, const Card& card);

}  // namespace genesis
