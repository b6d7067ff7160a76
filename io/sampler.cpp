#include "io/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/common/error.h"
#include "kernels/common/random.h"

namespace genesis {

double sampling_uniform(uint64_t seed, uint64_t position) {
  constexpr uint64_t kStream = 0;
  const uint64_t high = random_bits(seed, kStream, 2 * position),
                 low = random_bits(seed, kStream, 2 * position + 1);
  return double((high << 32 | low) >> 11) * 0x1p-53;
}

Sampler::Sampler(const SamplingOptions& options) : options_(options) {
  check(std::isfinite(options.temperature) && options.temperature >= 0,
        fmt::format("temperature must be a number of at least 0, found {}", options.temperature));
  check(options.top_k >= 0, fmt::format("top_k must be at least 0 (0: all tokens), found {}", options.top_k));
  check(options.top_p > 0 && options.top_p <= 1,
        fmt::format("top_p must be over 0 and at most 1 (1: all tokens), found {}", options.top_p));
}

int32_t Sampler::sample(std::span<const float> logits, double uniform) {
  require(uniform >= 0 && uniform < 1, "the sampler's random number is in [0, 1)");
  int32_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float x = logits[i];
    if (!(x < std::numeric_limits<float>::infinity())) {
      throw Error(fmt::format("the logit of token {} is {}: the model's output is not finite", i, x));
    }
    if (best < 0 ? x > -std::numeric_limits<float>::infinity() : x > logits[size_t(best)]) best = int32_t(i);
  }
  check(best >= 0,
        fmt::format("none of the {} tokens can be chosen: every logit is -infinity", logits.size()));
  if (options_.temperature == 0 || options_.top_k == 1) return best;

  tokens_.resize(logits.size());
  std::iota(tokens_.begin(), tokens_.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[size_t(a)], y = logits[size_t(b)];
    return x != y ? x > y : a < b;
  };
  if (options_.top_k > 0 && size_t(options_.top_k) < tokens_.size()) {
    std::nth_element(tokens_.begin(), tokens_.begin() + options_.top_k, tokens_.end(), likelier);
    tokens_.resize(size_t(options_.top_k));
  }
  // An order that depends on the logits alone, so that the same random number is the same token everywhere.
  if (tokens_.size() < logits.size() || options_.top_p < 1)
    std::sort(tokens_.begin(), tokens_.end(), likelier);

  const double highest = logits[size_t(best)];
  weights_.resize(tokens_.size());
  double total = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    weights_[i] = std::exp((double(logits[size_t(tokens_[i])]) - highest) / options_.temperature);
    total += weights_[i];
  }
  if (options_.top_p < 1) {
    double mass = 0;
    size_t kept = 0;
    do mass += weights_[kept++];
    while (mass < options_.top_p * total && kept < tokens_.size());
    total = mass;
    tokens_.resize(kept);
  }

  const double target = uniform * total;
  double sum = 0;
  int32_t chosen = best;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (weights_[i] == 0) continue;
    chosen = tokens_[i];  // the last with a weight, should rounding leave the sum short of the target
    sum += weights_[i];
    if (sum > target) break;
  }
  return chosen;
}

}  // namespace genesis
