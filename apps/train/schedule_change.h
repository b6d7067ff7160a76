// What a run that goes on does about a schedule that is not the one it had.
#pragma once

#include <functional>
#include <string>

#include "io/checkpoint.h"
#include "io/config.h"

namespace genesis {

// The learning rate of the step after `state.step`.
double next_learning_rate(const Config& config, const TrainState& state);

// The step that the schedule of `wanted` counts from, in a run that goes on from `held` (with the config that it was
// saved with): the one it did, or held.step where schedule.on_resume begins it again. That happens once: what is
// saved next is of the new schedule. `say` is told what becomes of a rate that moves. Throws Error, with both
// rates, where it moves by more than rounding and schedule.on_resume is refuse, and where a schedule that begins
// again does not fit into the steps that are left.
int64_t schedule_begin(const Config& wanted, const TrainState& held,
                       const std::function<void(const std::string&)>& say);

}  // namespace genesis
