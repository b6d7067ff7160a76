// Rows of a table by token; see kernels/embedding/embedding.h.
#pragma once

#include "engine/ops/op.h"

namespace genesis {

namespace ops {
extern const OpDef kEmbedding, kEmbeddingBackward;
}

}  // namespace genesis
