// The sum of a step's losses and the number of its valid tokens, in fp32, which every device has and which sums
// over devices can be made of.
#pragma once

#include <cstdint>

namespace genesis {

// Of the last tokens, and of those before them. One fp32 number counts exactly to 2^24 only, and a sum of losses
// that has come so far takes a loss of 1 for 0 or 2: so 2^20 tokens at a time are carried over to those before.
// The count is exact to 2^44 tokens; below 2^20, both are plain sums.
struct LossSum {
  static constexpr float kCarried = 0x1p20f;

  float loss = 0, count = 0;
  float loss_before = 0, count_before = 0;  // the count in units of 2^20 tokens

  constexpr void carry() {
    if (count < kCarried) return;
    const float whole = float(int(count / kCarried));
    loss_before += loss;
    count_before += whole;
    loss = 0;
    count -= whole * kCarried;
  }

  constexpr double total_loss() const { return double(loss_before) + double(loss); }
  constexpr double total_count() const { return double(count_before) * double(kCarried) + double(count); }
};

constexpr int64_t kLossSumFloats = sizeof(LossSum) / sizeof(float);

}  // namespace genesis
