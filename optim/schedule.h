// The learning rate over a run.
#pragma once

#include "io/config.h"

namespace genesis {

// Learning rate of step `step` in [0, steps). Warm-up: linear, lr (step + 1) / warmup_steps. Then
//   cosine    half a cosine (Loshchilov & Hutter 2016, arXiv:1608.03983) from lr to min_lr;
//   wsd       warm-up, stable, decay (Hu et al. 2024, arXiv:2404.06395): lr, and over the last decay_steps
//             linear to min_lr;
//   constant  lr.
// The last step has min_lr exactly (not: constant).
double learning_rate(const Config::Schedule& schedule, double lr, int64_t steps, int64_t step);

}  // namespace genesis
