// How long a step takes, for the time that is left.
#pragma once

#include <cstddef>
#include <deque>

namespace genesis {

class StepTime {
 public:
  void add(double seconds);

  // Of the last steps the median: a few slow ones, such as the first, which meets cold caches, memory never touched
  // before and kernels not made yet, do not move it. In seconds; 0 before the first step.
  double typical() const;

 private:
  static constexpr size_t kLast = 15;
  std::deque<double> last_;
  bool only_the_first_ = false;
};

}  // namespace genesis
