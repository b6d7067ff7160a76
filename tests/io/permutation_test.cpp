#include "io/permutation.h"

#include <cmath>
#include <set>
#include <vector>

#include "io/mixture.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

TEST_CASE("permute is a bijection of every size") {
  for (uint64_t n :
       {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 255, 256, 257, 1000, 4095, 4097, 65537}) {
    for (uint64_t stream : {0, 1, 2}) {
      std::vector<bool> taken(n);
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t place = permute(i, n, 1, stream);
        REQUIRE(place < n);
        REQUIRE(!taken[place]);
        taken[place] = true;
      }
    }
  }
}

TEST_CASE("permute holds up at sizes no test can walk through") {
  for (uint64_t n : {uint64_t(1) << 33, (uint64_t(1) << 40) + 1, (uint64_t(1) << 61) + 12345}) {
    std::set<uint64_t> places;
    for (uint64_t i = 0; i < 1000; ++i) {
      const uint64_t place = permute(i, n, 7, 0);
      REQUIRE(place < n);
      places.insert(place);
    }
    CHECK(places.size() == 1000);
  }
}

TEST_CASE("permute mixes, and every stream in its own way") {
  // Where index i goes, over many streams, is uniform: chi-squared of 10 places, 9 degrees of freedom; the
  // bound is the 1 - 1e-9 quantile. The streams are fixed, so the test does the same each time.
  constexpr int kPlaces = 10, kStreams = 20000;
  for (uint64_t i = 0; i < kPlaces; ++i) {
    std::vector<int> count(kPlaces);
    for (uint64_t stream = 0; stream < kStreams; ++stream) ++count[permute(i, kPlaces, 3, stream)];
    double chi_squared = 0;
    for (int c : count) chi_squared += std::pow(c - kStreams / kPlaces, 2) / (kStreams / kPlaces);
    CHECK(chi_squared < 60);
  }
  // Neighbours do not stay neighbours: in a random permutation of n about two of them do.
  int neighbours = 0;
  for (uint64_t i = 0; i + 1 < 10000; ++i) {
    const auto a = int64_t(permute(i, 10000, 5, 0)), b = int64_t(permute(i + 1, 10000, 5, 0));
    neighbours += std::abs(a - b) == 1;
  }
  CHECK(neighbours < 20);
}

TEST_CASE("a mixture takes each dataset's samples in order and keeps its share at every point") {
  const std::vector<std::vector<double>> mixtures = {{1},
                                                     {1, 1},
                                                     {0.9, 0.1},
                                                     {1, 2, 3},
                                                     {0.001, 0.999},
                                                     {5, 1, 1},
                                                     {1, 3, 0.5, 2, 7, 0.01, 1, 1, 1, 1},
                                                     std::vector<double>(50, 1.0)};
  for (const auto& weights : mixtures) {
    const Mixture mixture(weights);
    double sum = 0;
    for (double w : weights) sum += w;
    const double k = double(weights.size());
    // The shares are rounded to 2^-32, which is nothing at these counts.
    const double bound = (k <= 3 ? 1 : 1 + std::log(k) / 2) + 1e-3;
    std::vector<int64_t> given(weights.size());
    for (int64_t n = 0; n < 20000; ++n) {
      const auto [dataset, index] = mixture.sample(n);
      REQUIRE(index == given[size_t(dataset)]);
      ++given[size_t(dataset)];
      for (size_t i = 0; i < weights.size(); ++i) {
        REQUIRE(std::abs(double(given[i]) - weights[i] / sum * double(n + 1)) <= bound);
      }
    }
  }
}

TEST_CASE("a mixture loses no sample at numbers beyond 32 bits") {
  const Mixture mixture({0.3, 0.7});
  const int64_t start = (int64_t(1) << 45) - 500;
  std::vector<int64_t> last(2, -1);
  for (int64_t n = start; n < start + 1000; ++n) {
    const auto [dataset, index] = mixture.sample(n);
    if (last[size_t(dataset)] >= 0) REQUIRE(index == last[size_t(dataset)] + 1);
    last[size_t(dataset)] = index;
  }
  CHECK(std::abs(double(last[0]) / double(start + 1000) - 0.3) < 1e-9);
}

TEST_CASE("a weight that is no weight is refused") {
  for (double weight : {0.0, -1.0, std::nan(""), double(INFINITY)}) {
    CHECK(message_of([&] { Mixture({1, weight}); }).find("weight of dataset 2") != std::string::npos);
  }
}
