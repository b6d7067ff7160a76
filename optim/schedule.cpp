#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace genesis {

double learning_rate(const Config::Schedule& s, double lr, int64_t steps, int64_t step) {
  if (step < s.warmup_steps) return lr * double(step + 1) / double(s.warmup_steps);
  if (s.kind == Config::ScheduleKind::constant) return lr;
  const bool cosine = s.kind == Config::ScheduleKind::cosine;
  const int64_t decay = cosine ? steps - s.warmup_steps : s.decay_steps;
  const int64_t into = step - (steps - decay);
  if (into < 0) return lr;
  const int64_t to_min = s.min_lr > 0 ? decay - 1 : decay;  // steps until the rate is min_lr
  const double progress = into < to_min ? double(into) / double(to_min) : 1.0;
  const double left = cosine ? 0.5 * (1 + std::cos(std::numbers::pi * progress)) : 1 - progress;
  return s.min_lr + (lr - s.min_lr) * left;
}

double matrix_learning_rate(const Config::Optim& options, double lr) {
  return options.matrix_lr > 0 ? lr * (options.matrix_lr / options.lr) : lr;
}

}  // namespace genesis
