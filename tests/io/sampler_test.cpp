#include "io/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/common/random.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(float(std::log(p)));
  return logits;
}

// How often each token is chosen by the n random numbers (i + 1/2) / n. A token that owns an interval of
// length p of [0, 1) gets np of them, give or take one: no luck is involved.
std::vector<int> counts(const std::vector<float>& logits, const SamplingOptions& options, int n) {
  Sampler sampler(options);
  std::vector<int> found(logits.size());
  for (int i = 0; i < n; ++i) ++found[size_t(sampler.sample(logits, (i + 0.5) / n))];
  return found;
}

// The distribution as its definition says it, with nothing of the sampler's shortcuts.
std::vector<double> specified(const std::vector<float>& logits, const SamplingOptions& options) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (options.temperature == 0) order.resize(1);
  if (options.top_k > 0) order.resize(std::min(order.size(), size_t(options.top_k)));
  std::vector<double> p(logits.size(), 0.0);
  double total = 0;
  for (const size_t i : order) {
    p[i] = options.temperature == 0 ? 1 : std::exp((logits[i] - logits[order[0]]) / options.temperature);
    total += p[i];
  }
  double before = 0;
  double kept = 0;
  for (const size_t i : order) {
    const double share = p[i] / total;
    if (before >= options.top_p) p[i] = 0;
    before += share;
    kept += p[i];
  }
  for (double& x : p) x /= kept;
  return p;
}

void check_counts(const std::vector<float>& logits, const SamplingOptions& options, int n) {
  const auto found = counts(logits, options, n);
  const auto p = specified(logits, options);
  INFO("temperature " << options.temperature << " top_k " << options.top_k << " top_p " << options.top_p);
  for (size_t i = 0; i < p.size(); ++i) {
    INFO("token " << i << ": expected " << n * p[i] << ", found " << found[i]);
    CHECK(std::abs(found[i] - n * p[i]) <= 1.001);
    if (p[i] == 0) CHECK(found[i] == 0);
  }
}

}  // namespace

TEST_CASE("each token is chosen in proportion to its probability, at every temperature") {
  const auto logits = logits_of({0.1, 0.4, 0.05, 0.25, 0.2});
  for (const double temperature : {0.25, 0.7, 1.0, 3.0}) check_counts(logits, {temperature, 0, 1.0}, 10'000);
  const auto found = counts(logits, {1.0, 0, 1.0}, 1000);
  const std::vector<int> expected{100, 400, 50, 250, 200};
  for (size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(found[i] - expected[i]) <= 1);
}

TEST_CASE("top_k keeps the k highest, the lowest tokens among equals") {
  const auto logits = logits_of({0.1, 0.4, 0.05, 0.25, 0.2});
  const auto two = counts(logits, {1.0, 2, 1.0}, 650);
  CHECK(std::abs(two[1] - 400) <= 1);
  CHECK(std::abs(two[3] - 250) <= 1);
  CHECK(two[1] + two[3] == 650);
  CHECK(counts({1, 1, 1, 1}, {1.0, 2, 1.0}, 10) == std::vector<int>{5, 5, 0, 0});
  CHECK(counts(logits, {1.0, 1, 1.0}, 10) == std::vector<int>{0, 10, 0, 0, 0});
  CHECK(counts(logits, {1.0, 99, 1.0}, 1000) == counts(logits, {1.0, 5, 1.0}, 1000));
}

TEST_CASE("top_p keeps the smallest set with that mass, at least one token") {
  const auto logits = logits_of({0.1, 0.4, 0.05, 0.25, 0.2});
  const auto kept = [&](double top_p, int64_t top_k = 0) {
    const auto found = counts(logits, {1.0, top_k, top_p}, 1000);
    std::vector<int> tokens;
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] > 0) tokens.push_back(int(i));
    }
    return tokens;
  };
  CHECK(kept(1e-9) == std::vector<int>{1});
  CHECK(kept(0.399) == std::vector<int>{1});
  CHECK(kept(0.401) == std::vector<int>{1, 3});
  CHECK(kept(0.649) == std::vector<int>{1, 3});
  CHECK(kept(0.651) == std::vector<int>{1, 3, 4});
  CHECK(kept(0.999) == std::vector<int>{0, 1, 2, 3, 4});
  // After top_k = 2 the two have 0.615 and 0.385.
  CHECK(kept(0.61, 2) == std::vector<int>{1});
  CHECK(kept(0.62, 2) == std::vector<int>{1, 3});
}

TEST_CASE("the sampler agrees with its definition for many logits and options") {
  for (uint64_t round = 0; round < 60; ++round) {
    std::vector<float> logits(1 + round % 37);
    fill_normal(logits.data(), int64_t(logits.size()), 5, round, 0, 3);
    const SamplingOptions options{0.2 + 2 * double(random_uniform(6, round, 0)),
                                  int64_t(random_bits(6, round, 1) % 12),
                                  round % 3 == 0 ? 1.0 : 0.05 + 0.9 * double(random_uniform(6, round, 2))};
    check_counts(logits, options, 2000);
  }
}

TEST_CASE("temperature 0 takes the highest logit, the lowest token among equals") {
  Sampler sampler({0.0, 0, 1.0});
  CHECK(sampler.sample(std::vector<float>{1, 3, 2, 3}, 0.99) == 1);
  CHECK(sampler.sample(std::vector<float>{-kInf, -5, -kInf}, 0.0) == 1);
  CHECK(sampler.sample(std::vector<float>{-7}, 0.5) == 0);
}

TEST_CASE("the ends of the random numbers stay inside the distribution") {
  const double last = std::nextafter(1.0, 0.0);
  const std::vector<float> logits{-kInf, 0, 1, -200,
                                  -kInf};  // e^-201 is a weight that no sum of the others keeps
  for (const SamplingOptions& options :
       {SamplingOptions{}, SamplingOptions{1.0, 4, 1.0}, SamplingOptions{1.0, 0, 0.999}}) {
    Sampler sampler(options);
    for (const double u : {0.0, 0.3, last}) {
      const int32_t token = sampler.sample(logits, u);
      CHECK((token == 1 || token == 2));
    }
  }
  // Logits far from zero, in both directions, and a temperature that sends every other weight to zero.
  CHECK(Sampler({1.0, 0, 1.0}).sample(std::vector<float>{1e30f, -1e30f}, last) == 0);
  CHECK(Sampler({1e-300, 0, 1.0}).sample(std::vector<float>{1, 2, 1}, last) == 1);
}

TEST_CASE("a seed gives the same random numbers, and they are uniform") {
  CHECK(sampling_uniform(1, 7) == sampling_uniform(1, 7));
  CHECK(sampling_uniform(1, 7) != sampling_uniform(2, 7));
  CHECK(sampling_uniform(1, 7) != sampling_uniform(1, 8));
  constexpr int kBins = 64, kPerBin = 1000;
  std::vector<int> bins(kBins);
  for (uint64_t i = 0; i < kBins * kPerBin; ++i) {
    const double u = sampling_uniform(3, i);
    REQUIRE((u >= 0 && u < 1));
    ++bins[size_t(u * kBins)];
  }
  // Chi-squared with 63 degrees of freedom: mean 63, standard deviation sqrt(126) = 11.2. Five of those to
  // each side; the numbers are fixed, so this holds always or never.
  double chi = 0;
  for (const int n : bins) chi += double(n - kPerBin) * (n - kPerBin) / kPerBin;
  CHECK(chi > 63 - 56);
  CHECK(chi < 63 + 56);
}

TEST_CASE("sampling refuses options and logits that mean nothing") {
  const auto refused = [](SamplingOptions options) { return message_of([&] { Sampler sampler(options); }); };
  const double nan = std::nan("");
  for (const double t : {-0.1, double(kInf), nan}) {
    CHECK(refused({t, 0, 1.0}).find("temperature must be") != std::string::npos);
  }
  CHECK(refused({1.0, -1, 1.0}).find("top_k must be") != std::string::npos);
  for (const double p : {0.0, -1.0, 1.01, nan})
    CHECK(refused({1.0, 0, p}).find("top_p must be") != std::string::npos);

  Sampler sampler({0.0, 0, 1.0});
  const auto sample = [&](std::vector<float> logits) {
    return message_of([&] { sampler.sample(logits, 0.5); });
  };
  CHECK(sample({0, std::nanf(""), 0}).find("the logit of token 1 is nan") != std::string::npos);
  CHECK(sample({kInf, 0}).find("the logit of token 0 is inf") != std::string::npos);
  CHECK(sample({-kInf, -kInf}).find("none of the 2 tokens") != std::string::npos);
  CHECK(sample({}).find("none of the 0 tokens") != std::string::npos);
}
