// Doubles for the proofs of the references.
#pragma once

#include <vector>

#include "kernels/common/random.h"

namespace genesis {

inline std::vector<double> random_vector(int64_t n, uint64_t stream, double mean = 0, double deviation = 1) {
  std::vector<double> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = mean + deviation * random_normal(2, stream, i);
  return v;
}

}  // namespace genesis
