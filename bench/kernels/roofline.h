// The time that a config's step cannot go below on a card, by the engine's model of time.
#pragma once

#include <span>
#include <string>

#include "engine/time/rates.h"
#include "io/config.h"

namespace genesis::bench {

// Each kernel of a step on one card, a layer, and tokens/s, at the micro-batch that takes the least time.
std::string roofline(const Config& config, const Card& card);

// Tokens/s of each config on every card, a row each, and at which micro-batch.
std::string roofline_of_cards(std::span<const Config> configs);

}  // namespace genesis::bench
