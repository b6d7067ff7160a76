// The specification of the elementwise ops. S is float or double.
#pragma once

#include <cstdint>

namespace genesis::ref {

template <class S>
void add(int64_t n, const S* a, const S* b, S* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

}  // namespace genesis::ref
