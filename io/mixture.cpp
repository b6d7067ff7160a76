#include "io/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/common/error.h"

namespace genesis {

namespace {

constexpr uint64_t kWhole = uint64_t(1) << 32;

// share x n to the nearest integer, halves up; the product in two halves, as it may have more than 64 bits.
int64_t taken(uint64_t share, int64_t n) {
  const uint64_t high = uint64_t(n) >> 32, low = uint64_t(n) & 0xffffffffu;
  return int64_t(share * high + ((share * low + kWhole / 2) >> 32));
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    check(std::isfinite(weights[i]) && weights[i] > 0, "the weight of dataset " + std::to_string(i + 1) +
                                                           " is " + std::to_string(weights[i]) +
                                                           ": expected a positive number");
  }
  std::vector<int> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return weights[a] > weights[b]; });
  double rest = 0;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {  // the small ones first, for the sum's sake
    rest += weights[*i];
    shares_.push_back({*i, uint64_t(std::llround(weights[*i] / rest * double(kWhole)))});
  }
  std::reverse(shares_.begin(), shares_.end());
}

MixtureSample Mixture::sample(int64_t n) const {
  for (const Share& share : shares_) {
    const int64_t before = taken(share.of_rest, n);
    if (taken(share.of_rest, n + 1) > before) return {share.dataset, before};
    n -= before;
  }
  throw Error("internal error: a mixture without datasets");  // the last share is the whole rest
}

}  // namespace genesis
