#include "apps/train/step_time.h"

#include <algorithm>
#include <vector>

namespace genesis {

void StepTime::add(double seconds) {
  if (only_the_first_) last_.clear();
  only_the_first_ = last_.empty() && !only_the_first_;
  last_.push_back(seconds);
  if (last_.size() > kLast) last_.pop_front();
}

double StepTime::typical() const {
  if (last_.empty()) return 0;
  std::vector<double> sorted(last_.begin(), last_.end());
  const auto middle = sorted.begin() + (sorted.size() - 1) / 2;  // the lower of two
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace genesis
