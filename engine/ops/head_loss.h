// The output layer and the cross-entropy as one op, so that logits exist for one chunk of tokens at a time.
#pragma once

#include "engine/ops/op.h"

namespace genesis {

struct HeadLossAttrs {
  float z_loss = 0.f;
  int chunk = 0;               // tokens whose logits exist at a time; 0: what suits the device
  bool with_gradient = false;  // differentiate() turns it on
};

namespace ops {
extern const OpDef kHeadLoss;
}

}  // namespace genesis
