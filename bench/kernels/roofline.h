// The time that a config's step cannot go below on a card: counted bytes and operations at the card's rates.
#pragma once

#include <span>
#include <string>

#include "io/config.h"

namespace genesis::bench {

struct Card {
  const char* name;         // "sm_89"
  const char* product;      // "RTX 4090"
  double bytes_per_second;  // that a large copy reaches
  double flops_per_second;  // that a large bf16 product reaches
  double memory;            // bytes
};

std::span<const Card> cards();
// By name or product. Throws Error listing the cards for another name.
const Card& card_named(const std::string& name);

// Per kernel: calls, bytes, operations and the least time of one step on one card; a layer's share, the
// step's sum, and tokens/s. A kernel takes the longer of its bytes' and its operations' time; nothing
// overlaps.
std::string roofline(const Config& config, const Card& card);

// Tokens/s of a config on every card, a row each.
std::string roofline_of_cards(std::span<const Config> configs);

}  // namespace genesis::bench
