// An optimizer as nodes of the graph, and what the host writes for them before each step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/storage.h"
#include "io/config.h"

namespace genesis {

// A parameter that an optimizer updates, or the part of it whose state is kept here: with state that is sharded,
// each rank has a slice of its own. An optimizer of whole matrices takes no slices.
struct TrainedParameter {
  std::string parameter;
  bool decay = false;                 // by the weight decay
  int64_t begin = 0, count = kWhole;  // elements; begin a multiple of 8
  // Rows of the matrices that it is made of, one below the other, if it is a layer's: an optimizer of matrices
  // takes each by itself. Empty: what is not multiplied by (embeddings, vectors), or belongs to the output.
  std::vector<int64_t> matrices = {};

  static constexpr int64_t kWhole = -1;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Appends the nodes of the update phase that move the parameters against their gradients, "d.<parameter>". State
  // is what has the role moment, "<parameter>.<its name>", and a fp32 original "master.<parameter>" of each
  // parameter whose compute type is narrower; a slice's state has the shape [count].
  virtual void append(Graph& graph, ValueId norm_and_scale,
                      const std::vector<TrainedParameter>& trained) const = 0;

  // Writes what changes from step to step, before the update phase runs. `number` counts the steps applied, from 1.
  virtual void write_step(Storage& storage, double lr, int64_t number) const = 0;
};

std::unique_ptr<Optimizer> make_optimizer(const Config::Optim& options);

// [2], a result: see kernels/grad_norm/grad_norm.h.
constexpr const char* kNormAndScaleValue = "optim.norm_and_scale";

// Appends to a differentiated graph: zeroing of the gradients in the begin phase; in the update phase the whole
// gradient's norm, clipped to clip_norm (<= 0: not), and the optimizer's nodes.
void append_optimizer(Graph& graph, ValueId loss_and_count, double clip_norm, const Optimizer& optimizer,
                      const std::vector<TrainedParameter>& trained);

}  // namespace genesis
