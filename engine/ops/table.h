// The list of all ops; op_def() looks things up in it.
#pragma once

#include "engine/ops/op.h"

namespace genesis::ops {

extern const OpDef kEmbedding, kEmbeddingBackward;
extern const OpDef kRmsNorm, kRmsNormBackward;
extern const OpDef kMatMul;
extern const OpDef kRope;
extern const OpDef kAttention, kAttentionBackward, kAttentionCached;
extern const OpDef kSwiGlu, kSwiGluBackward;
extern const OpDef kHeadLoss;
extern const OpDef kAdd, kZero;
extern const OpDef kGradNorm, kAdamW;

}  // namespace genesis::ops
