#include "engine/ops/table.h"

#include "engine/ops/attention.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"
#include "engine/ops/head_loss.h"
#include "engine/ops/matmul.h"
#include "engine/ops/muon.h"
#include "engine/ops/optimizer.h"
#include "engine/ops/qk_norm.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/rope.h"
#include "engine/ops/swiglu.h"

namespace genesis {

std::span<const OpDef* const> all_ops() {
  static constexpr const OpDef* kOps[] = {
      &ops::kEmbedding,
      &ops::kEmbeddingBackward,
      &ops::kRmsNorm,
      &ops::kRmsNormBackward,
      &ops::kMatMul,
      &ops::kRope,
      &ops::kQkNorm,
      &ops::kQkNormBackward,
      &ops::kAttention,
      &ops::kAttentionBackward,
      &ops::kAttentionCached,
      &ops::kSwiGlu,
      &ops::kSwiGluBackward,
      &ops::kHeadLoss,
      &ops::kAdd,
      &ops::kZero,
      &ops::kGradNorm,
      &ops::kAdamW,
      &ops::kMuon,
  };
  return kOps;
}

}  // namespace genesis
