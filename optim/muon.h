// Muon for the matrices of the layers, a node for each shape of them (kernels/muon/muon.h), and AdamW for all else.
// A matrix has one moment, "<parameter>.m".
#pragma once

#include "optim/adamw.h"

namespace genesis {

class MuonOptimizer final : public Optimizer {
 public:
  explicit MuonOptimizer(const Config::Optim& options) : options_(options), others_(options) {}

  void append(Graph& graph, ValueId norm_and_scale,
              const std::vector<TrainedParameter>& trained) const override;
  void write_step(Storage& storage, double lr, int64_t number) const override;

 private:
  const Config::Optim options_;
  const AdamWOptimizer others_;
};

}  // namespace genesis
