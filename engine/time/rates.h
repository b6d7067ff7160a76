// How fast a device moves and multiplies: what the model of time goes by (engine/time/graph_time.h).
#pragma once

#include <span>
#include <string>

#include "engine/device/device.h"
#include "engine/ops/cost.h"

namespace genesis {

struct Rates {
  double bytes = 0;                      // a second, that a large copy reaches, read and written
  double library = 0, mma = 0, fma = 0;  // FLOP/s by Unit
  double launch_gap = 0;                 // seconds from the end of a kernel to the beginning of the next

  double of(Unit unit) const;
};

struct Card {
  const char* name;          // "rtx4090", as one asks for it
  const char* product;       // "RTX 4090"
  const char* architecture;  // "sm_89"
  double memory;             // bytes
  Rates rates;               // of matrix products in bf16 (fma: fp32)
};

std::span<const Card> cards();
// By name, product or, where only one card has it, architecture; upper case, spaces, - and _ do not matter.
// Throws Error listing the cards for another name.
const Card& card_named(const std::string& name);
std::string names_of_cards();  // "rtx4090, rtx5090, ...", for people

// A device's rates by its name, as in "NVIDIA GeForce RTX 4090"; the first card's for a GPU that is not listed.
const Rates& rates_of(DeviceKind kind, const std::string& name);

// Rates of a CPU, by which recomputation is ordered there: no more than its ratio of operations to bytes
// hangs on them, and no time is told for a CPU.
extern const Rates kCpuRates;

}  // namespace genesis
