#include "kernels/common/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/common/parallel.h"

namespace genesis {

namespace {

constexpr int64_t kTask = 4096;  // elements, a multiple of 4

std::array<double, 4> normal_block(uint64_t seed, uint64_t stream, uint64_t block) {
  const auto bits = random_block(seed, stream, block);
  std::array<double, 4> z;
  for (size_t i = 0; i < 4; i += 2) {
    const double u = (bits[i] + 1.0) * 0x1p-32;  // in (0, 1]
    const double angle = 2 * std::numbers::pi * 0x1p-32 * bits[i + 1];
    const double radius = std::sqrt(-2 * std::log(u));
    z[i] = radius * std::cos(angle);
    z[i + 1] = radius * std::sin(angle);
  }
  return z;
}

}  // namespace

void fill_normal(float* x, int64_t n, uint64_t seed, uint64_t stream, double mean, double deviation) {
  parallel_for(block_count(n, kTask), [&](int64_t task) {
    const int64_t end = std::min(n, (task + 1) * kTask);
    for (int64_t i = task * kTask; i < end; i += 4) {
      const auto z = normal_block(seed, stream, uint64_t(i / 4));
      for (int64_t k = i; k < std::min(i + 4, end); ++k) x[k] = float(mean + deviation * z[size_t(k - i)]);
    }
  });
}

}  // namespace genesis
