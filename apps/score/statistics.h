// How far a mean over documents, or over questions, would move with other ones of the same kind.
#pragma once

#include <cstdint>
#include <span>

namespace genesis {

struct Interval {
  double low = 0, high = 0;
};

// One unit of what a ratio is made of: sum of `amount` over sum of `size`. Cross-entropy: nats and tokens.
struct RatioUnit {
  double amount = 0, size = 0;
};

double ratio_of(std::span<const RatioUnit> units);

// The 95% interval of the ratio by the bootstrap (Efron 1979): of 2,000 resamplings of the units, the 2.5th and
// the 97.5th percentile. The same units give the same interval. More than 5,000 units are first put together,
// neighbours with neighbours, to that many. NaN for fewer than two units.
Interval bootstrap_interval(std::span<const RatioUnit> units);

}  // namespace genesis
