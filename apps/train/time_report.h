// A step's time on a card as text.
#pragma once

#include <string>

#include "engine/time/graph_time.h"

namespace genesis {

// A line a kernel: launches, bytes, operations, time and share; a layer's time; tokens/s; what is not in it.
std::string time_report(const GraphTime& time, const Card& card, double tokens);

}  // namespace genesis
