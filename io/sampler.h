// Choosing the next token from a model's logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace genesis {

// Applied in this order: temperature, then top_k, then top_p on what top_k left.
struct SamplingOptions {
  // >= 0, finite; logits are divided by it; 0: the highest logit, whatever the rest
  double temperature = 1.0;
  int64_t top_k = 0;   // >= 0; keep the k highest logits; 0: all
  double top_p = 1.0;  // in (0, 1]; keep the fewest most likely tokens that have at least this probability
};

// The random number for the token at `position` of a text: a function of these alone, so that a seed gives
// the same text whatever was sampled before. Uniform in [0, 1), a multiple of 2^-53: float's 24 bits would be
// too coarse for the unlikely tokens of a large vocabulary.
double sampling_uniform(uint64_t seed, uint64_t position);

class Sampler {
 public:
  // Error naming the option that is out of its range.
  explicit Sampler(const SamplingOptions& options);

  // The token at `uniform`, in [0, 1), of the distribution; equal logits are ordered by token, lowest first.
  // A logit of -infinity is a token that can't be chosen. Error: a logit that is NaN or +infinity, or none
  // that can be chosen. Allocates nothing after the first call of a vocabulary's size.
  int32_t sample(std::span<const float> logits, double uniform);

 private:
  SamplingOptions options_;
  std::vector<int32_t> tokens_;  // the candidates, most likely first where the options need an order
  std::vector<double> weights_;  // and their probabilities, not normalised
};

}  // namespace genesis
