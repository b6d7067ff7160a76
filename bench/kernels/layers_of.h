// The layers that configs train.
#pragma once

#include <vector>

#include "bench/kernels/layer.h"
#include "io/config.h"

namespace genesis::bench {

// One of each config, a micro-batch, named after the run. Its operations are checked against those of the
// graph that the config is trained with: the benchmark's layer is written out by hand (layer.h).
std::vector<LayerCase> layers_of(const std::vector<Config>& configs);

}  // namespace genesis::bench
