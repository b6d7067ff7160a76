#include "apps/score/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/random.h"

namespace genesis {
namespace {

constexpr size_t kMostUnits = 5000;
constexpr size_t kResamplings = 2000;
constexpr uint64_t kSeed = 1;

std::vector<RatioUnit> gathered(std::span<const RatioUnit> units, size_t most) {
  if (units.size() <= most) return {units.begin(), units.end()};
  std::vector<RatioUnit> groups(most);
  for (size_t i = 0; i < units.size(); ++i) {
    RatioUnit& group = groups[i * most / units.size()];
    group.amount += units[i].amount;
    group.size += units[i].size;
  }
  return groups;
}

}  // namespace

double ratio_of(std::span<const RatioUnit> units) {
  double amount = 0, size = 0;
  for (const RatioUnit& unit : units) {
    amount += unit.amount;
    size += unit.size;
  }
  return amount / size;
}

Interval bootstrap_interval(std::span<const RatioUnit> all) {
  if (all.size() < 2) return {NAN, NAN};
  const std::vector<RatioUnit> units = gathered(all, kMostUnits);
  std::vector<double> ratios;
  for (size_t r = 0; r < kResamplings; ++r) {
    double amount = 0, size = 0;
    for (size_t i = 0; i < units.size(); ++i) {
      const RatioUnit& unit = units[uint64_t(random_bits(kSeed, r, i)) * units.size() >> 32];
      amount += unit.amount;
      size += unit.size;
    }
    ratios.push_back(amount / size);
  }
  std::sort(ratios.begin(), ratios.end());
  const auto percentile = [&](double p) { return ratios[size_t(p * double(kResamplings - 1))]; };
  return {percentile(0.025), percentile(0.975)};
}

}  // namespace genesis
