// What a memory plan must hold at least: the most that is live at one node. No plan can be smaller.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/passes/plan_memory.h"

namespace genesis {

inline size_t live_bytes(const MemoryPlan& plan) {
  std::vector<int64_t> change(plan.workspaces.size() + 1);  // by node
  for (const auto* placements : {&plan.values, &plan.workspaces}) {
    for (const Placement& p : *placements) {
      if (p.bytes == 0) continue;
      change[size_t(p.first)] += int64_t(p.bytes);
      change[size_t(p.last) + 1] -= int64_t(p.bytes);
    }
  }
  int64_t live = 0, most = 0;
  for (const int64_t c : change) most = std::max(most, live += c);
  return size_t(most);
}

}  // namespace genesis
