// Which values of the forward pass the backward pass keeps, and which it computes again.
#pragma once

#include <vector>

#include "engine/device/device.h"
#include "engine/graph/graph.h"
#include "engine/time/rates.h"

namespace genesis {

enum class RecomputePolicy { none, block, automatic };

struct RecomputePlan {
  std::vector<ValueId> kept;        // activations of the forward pass that live into the backward pass
  std::vector<ValueId> recomputed;  // those that would have, and are computed again instead
  double flops = 0;                 // of the replays, a micro-step
};

// Rewrites the backward pass so that only some of the forward values that it uses are kept; the others are
// computed again, with the same bits: by backward nodes that give them again in their own pass, where nothing but
// additions to gradients uses them earlier (these wait for the node), else by copies of the forward nodes, put right
// before their first use.
//   none       everything is kept
//   block      inside the executions of layers only their inputs are kept
//   automatic  as much is kept as lets the arena of activations fit in `budget` bytes of the device: what costs the
//              least time a byte is given up first, by the model of time (engine/time) at the device's rates.
//              Throws Error if even the smallest plan does not fit.
RecomputePlan recompute(Graph& graph, RecomputePolicy policy, DeviceKind device, const Rates& rates,
                        size_t budget = 0);

}  // namespace genesis
