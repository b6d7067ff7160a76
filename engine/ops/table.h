// The list of all ops.
#pragma once

#include <span>

#include "engine/ops/op.h"

namespace genesis {

std::span<const OpDef* const> all_ops();

}  // namespace genesis
