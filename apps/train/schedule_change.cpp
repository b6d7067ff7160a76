#include "apps/train/schedule_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/error.h"
#include "optim/schedule.h"

namespace genesis {
namespace {

// All that a step's learning rate depends on.
constexpr std::string_view kFields[] = {"train.steps",           "optim.lr",        "schedule.kind",
                                        "schedule.warmup_steps", "schedule.min_lr", "schedule.decay_steps",
                                        "optim.matrix_lr"};

// By more than AdamW, which computes in fp32, can tell from rounding.
bool moved(double was, double is) {
  return std::abs(is - was) > std::numeric_limits<float>::epsilon() * std::max(was, is);
}

void check_fits(const Config::Schedule& s, int64_t left) {
  const bool wsd = s.kind == Config::ScheduleKind::wsd;
  check(s.warmup_steps < left && (!wsd || s.warmup_steps + s.decay_steps <= left),
        fmt::format(
            "schedule.on_resume is restart, and {} steps are left, too few for schedule.warmup_steps ({}){}: "
            "raise train.steps",
            left, s.warmup_steps, wsd ? fmt::format(" and schedule.decay_steps ({})", s.decay_steps) : ""));
}

}  // namespace

double next_learning_rate(const Config& config, const TrainState& state) {
  const int64_t begin = state.schedule_begin;
  return learning_rate(config.schedule, config.optim.lr, config.train.steps - begin, state.step - begin);
}

int64_t schedule_begin(const Config& wanted, const TrainState& held,
                       const std::function<void(const std::string&)>& say) {
  const int64_t left = wanted.train.steps - held.step;
  if (left <= 0) return held.schedule_begin;
  const Config before = parse_config(held.config, "the checkpoint's config");
  const std::string changes = config_changes(before, wanted, kFields);
  if (changes.empty()) return held.schedule_begin;

  const bool restarts = wanted.schedule.on_resume == Config::OnResume::restart;
  if (restarts) check_fits(wanted.schedule, left);
  TrainState next = held;
  if (restarts) next.schedule_begin = held.step;
  double was = next_learning_rate(before, held), is = next_learning_rate(wanted, next);
  if (!moved(was, is)) {  // perhaps the matrices' moves
    was = matrix_learning_rate(before.optim, was);
    is = matrix_learning_rate(wanted.optim, is);
  }
  check(!moved(was, is) || wanted.schedule.on_resume != Config::OnResume::refuse,
        fmt::format(
            "{}: so the learning rate of step {}, the next one, would be {} instead of {}. Set "
            "schedule.on_resume: extend to take the new schedule as if it had been so from its beginning, or "
            "restart to begin it again there, over the {} steps that are left",
            changes, held.step + 1, is, was, left));
  if (restarts) {
    say(fmt::format("{}: the schedule begins again, over the {} steps that are left", changes, left));
  }
  if (moved(was, is)) {
    say(fmt::format("the learning rate of step {} is {} instead of {}", held.step + 1, is, was));
  }
  return next.schedule_begin;
}

}  // namespace genesis
