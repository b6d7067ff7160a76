// Initial parameters.
#pragma once

#include "engine/runtime/storage.h"
#include "io/config.h"

namespace genesis {

// Norm weights 1, all else normal(0, init_std); with scale_residual_init the projections that write to the
// residual stream (attn.out, ffn.down) are scaled by 1 / sqrt(2 x executions). Every element is a function of
// (seed, parameter's name, index): not of order or threads.
void initialise_parameters(const Config::Model& model, uint64_t seed, Storage& storage);

}  // namespace genesis
