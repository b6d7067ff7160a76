// A step of training as the host sees it: batches in, a result out, for every device.
#pragma once

#include <map>
#include <memory>

#include "engine/runtime/executable.h"
#include "io/config.h"
#include "io/loader.h"
#include "kernels/cross_entropy/loss_sum.h"
#include "optim/optimizer.h"

namespace genesis {

// Writes a micro-batch to the inputs of a model's graphs. The batch may change when this returns.
void feed(Storage& storage, const Batch& batch);

struct StepResult {
  double loss = 0;       // mean cross-entropy of the global batch's valid targets
  double grad_norm = 0;  // of the mean loss's gradient, before it is clipped
  bool applied = false;  // false: loss or gradient was not finite, and the step has changed no parameter
};

// The executables of a model that is trained, one for each number of recurrent steps K that it is trained at (1 for a
// dense model), and its optimizer. A step is begin(), micro() for each micro-batch, update(), then its result().
class TrainingStep {
 public:
  // Graphs by their K, of build_training_graph: one model, one batch shape, one optimizer.
  TrainingStep(std::map<int64_t, Graph> graphs, const Config::Optim& optim, Storage& storage);

  // Makes all that can be decided before a step ready, as the first one does otherwise.
  void prepare();

  // Zeroes gradients and sums.
  void begin();

  // Adds a micro-batch's gradients and losses.
  void micro(const Batch& batch, int64_t recurrence);

  // Moves the parameters. `number` counts the steps applied, from 1. What came of it is put aside by a queued copy.
  void update(double lr, int64_t number);

  // What the last update() came to. The next step's begin() and micro() may come before it; not the next update(), whose
  // number depends on `applied`. Waits for the update, and for nothing that was queued after it.
  StepResult result() const;

  Executable& executable(int64_t recurrence);

 private:
  Storage& storage_;
  std::unique_ptr<Optimizer> optimizer_;
  std::map<int64_t, Executable> executables_;
  std::unique_ptr<QueuedCopy> sum_, norm_and_scale_;
};

}  // namespace genesis
