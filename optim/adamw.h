// The optimizer as nodes of the graph.
#pragma once

#include "engine/graph/graph.h"

namespace genesis {

struct AdamWOptions {
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;
  float weight_decay = 0.1f;  // of matrices; vectors (norm weights) have none
  float clip_norm = 1.f;      // of the whole gradient; <= 0: none
};

// Values the optimizer adds, for those who read and write them.
constexpr const char* kStepValue = "optim.step";  // AdamWStep: what changes from step to step
constexpr const char* kNormAndScaleValue = "optim.norm_and_scale";  // [2]: see kernels/grad_norm/grad_norm.h

// Appends to a differentiated graph: zeroing of gradients in the begin phase; gradient norm, clipping and
// AdamW in the update phase. A parameter whose compute type is not f32 gets an fp32
// master, "master.<parameter>"; otherwise it is its own. Moments are "m.<parameter>" and "v.<parameter>".
void append_adamw(Graph& graph, ValueId loss_and_count, const AdamWOptions& options);

}  // namespace genesis
