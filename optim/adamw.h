// AdamW: one node over all tensors; see kernels/adamw/adamw.h. Its state is two moments, "<parameter>.m" and
// "<parameter>.v".
#pragma once

#include "optim/optimizer.h"

namespace genesis {

class AdamWOptimizer final : public Optimizer {
 public:
  explicit AdamWOptimizer(const Config::Optim& options) : options_(options) {}

  void append(Graph& graph, ValueId norm_and_scale,
              const std::vector<TrainedParameter>& trained) const override;
  void write_step(Storage& storage, double lr, int64_t number) const override;

 private:
  const Config::Optim options_;
};

}  // namespace genesis
