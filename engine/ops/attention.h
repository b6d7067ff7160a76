// Causal grouped-query attention; see kernels/attention/attention.h.
#pragma once

#include "engine/ops/op.h"

namespace genesis {

struct AttentionAttrs {
  int B = 0, T = 0, H = 0, KV = 0, K = 0;
  bool document_mask = false;
};

namespace ops {
extern const OpDef kAttention, kAttentionBackward, kAttentionCached;
}

}  // namespace genesis
