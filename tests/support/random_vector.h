// Doubles for the proofs of the references.
#pragma once

#include <vector>

#include "kernels/common/random.h"

namespace genesis {

inline std::vector<double> random_vector(int64_t n, uint64_t stream, double mean = 0, double deviation = 1) {
  std::vector<float> v(static_cast<size_t>(n));
  fill_normal(v.data(), n, 2, stream, mean, deviation);
  return {v.begin(), v.end()};
}

}  // namespace genesis
