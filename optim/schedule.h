// The learning rate over a run.
#pragma once

#include "io/config.h"

namespace genesis {

// Learning rate of step `step` in [0, steps). Warm-up: linear, lr (step + 1) / warmup_steps. Then, with
// p = into / (decay - 1) of the decay's `decay` steps, into = 0, 1, ..., decay - 1,
//   cosine    half a cosine (Loshchilov & Hutter 2016, arXiv:1608.03983) over all that the warm-up leaves:
//             min_lr + (lr - min_lr) (1 + cos(pi p)) / 2;
//   wsd       warm-up, stable, decay (Hu et al. 2024, arXiv:2404.06395): lr, and over the last decay_steps
//             min_lr + (lr - min_lr) (1 - p);
//   constant  lr.
// So the decay's first step still has lr, and its last one min_lr exactly. A step at a rate of 0 would be wasted:
// where min_lr is 0, p = into / decay, and 0 would be the rate of the step after the last.
double learning_rate(const Config::Schedule& schedule, double lr, int64_t steps, int64_t step);

// The matrices' rate in a step whose rate is `lr`: optim.matrix_lr goes as optim.lr does, min_lr included.
double matrix_learning_rate(const Config::Optim& options, double lr);

}  // namespace genesis
