// Comparison of an array with its reference: CHECK(mismatch(result) == "").
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

#include "kernels/common/cases.h"

namespace genesis {

// Empty when every element is within its tolerance and nothing was written past the end; else how many are
// not, and the one that exceeds its tolerance most.
inline std::string mismatch(const Result& r) {
  const Buffer& found = *r.found;
  if (size_t(found.size()) != r.expected.size()) {
    return r.name + ": " + std::to_string(found.size()) + " elements, expected " +
           std::to_string(r.expected.size());
  }
  if (!found.guard_intact()) return r.name + ": written past its end";
  int64_t bad = 0, worst = 0;
  double worst_excess = 0;
  for (int64_t i = 0; i < found.size(); ++i) {
    const double e = r.expected[size_t(i)], f = found.get(i);
    if (e == f || (std::isnan(e) && std::isnan(f))) continue;
    const double allowed = r.tolerance.absolute + r.tolerance.relative * std::abs(e);
    double excess = std::abs(f - e) / allowed;
    if (excess <= 1) continue;
    if (std::isnan(excess)) excess = INFINITY;
    if (bad++ == 0 || excess > worst_excess) {
      worst = i;
      worst_excess = excess;
    }
  }
  if (bad == 0) return "";
  char text[256];
  const double e = r.expected[size_t(worst)];
  std::snprintf(
      text, sizeof text,
      "%s: %lld of %lld elements differ, worst at [%lld]: expected %.9g, found %.9g, allowed error %.3g",
      r.name.c_str(), static_cast<long long>(bad), static_cast<long long>(found.size()),
      static_cast<long long>(worst), e, found.get(worst),
      r.tolerance.absolute + r.tolerance.relative * std::abs(e));
  return text;
}

}  // namespace genesis
