// The order in which stored layers run: the one place that knows of recurrence.
#pragma once

#include <string>
#include <vector>

#include "io/config.h"

namespace genesis {

struct Execution {
  int layer = 0;     // stored layer
  std::string name;  // "layers.3", or "layers.3[1]" for the second run of a layer that has several
};

// Recurrent steps the model is trained with; 1 for a dense model.
int64_t trained_recurrence(const Config::Model& model);

// Dense: every layer once. Recurrent: prelude, `recurrence` times the core, coda.
std::vector<Execution> executions(const Config::Model& model, int64_t recurrence);

}  // namespace genesis
