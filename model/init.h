// Initial parameters.
#pragma once

#include "engine/runtime/storage.h"
#include "io/config.h"

namespace genesis {

// The parameters' initial values, as their table says (model/parameters.h). Every element is a function of (seed,
// parameter's name, index): not of order or threads.
void initialise_parameters(const Config::Model& model, uint64_t seed, Storage& storage);

}  // namespace genesis
