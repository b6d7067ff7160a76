// Which dataset each sample of an endless mixture comes from.
#pragma once

#include <cstdint>
#include <vector>

namespace genesis {

// The n-th sample of the mixture is the `index`-th that its dataset gives.
struct MixtureSample {
  int dataset;
  int64_t index;
};

// A function of the sample's number alone. The dataset of the largest weight takes the samples at which its
// share of the count passes a half-integer; the next takes its share of what is left in the same way; and so
// on. After any n samples a dataset has given its weight's share of them, to within 1 for up to three
// datasets and 1 + ln(k) / 2 for k.
class Mixture {
 public:
  explicit Mixture(const std::vector<double>& weights);  // positive; need not sum to 1
  MixtureSample sample(int64_t n) const;

 private:
  struct Share {
    int dataset;
    uint64_t of_rest;  // in 2^-32: exact integers, so that no sample is lost or doubled to rounding
  };
  std::vector<Share> shares_;
};

}  // namespace genesis
