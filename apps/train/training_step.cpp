#include "apps/train/training_step.h"

#include <cmath>
#include <cstring>

#include "kernels/common/error.h"
#include "model/decoder.h"

namespace genesis {

void feed(Storage& storage, const Batch& batch) {
  const auto write = [&](const char* name, const std::vector<int32_t>& ids) {
    storage.write(name, ids.data(), ids.size() * sizeof(int32_t));
  };
  write(kTokens, batch.tokens);
  write(kTargets, batch.targets);
  write(kPositions, batch.positions);
}

TrainingStep::TrainingStep(std::map<int64_t, Graph> graphs, const Config::Optim& optim, Storage& storage)
    : storage_(storage),
      optimizer_(make_optimizer(optim)),
      sum_(storage.device().make_queued_copy(sizeof(LossSum))),
      norm_and_scale_(storage.device().make_queued_copy(2 * sizeof(float))) {
  require(!graphs.empty(), "a model is trained at some number of recurrent steps");
  for (auto& [recurrence, graph] : graphs) executables_.try_emplace(recurrence, std::move(graph), storage);
}

void TrainingStep::prepare() {
  for (auto& [recurrence, executable] : executables_) executable.prepare();
}

// All graphs begin and update alike: they have the same parameters.
void TrainingStep::begin() { executables_.begin()->second.run(Phase::begin); }

void TrainingStep::micro(const Batch& batch, int64_t recurrence) {
  feed(storage_, batch);
  executable(recurrence).run(Phase::micro);
}

void TrainingStep::update(double lr, int64_t number) {
  optimizer_->write_step(storage_, lr, number);
  executables_.begin()->second.run(Phase::update);
  // Here, not in result(): the next step's begin zeroes the sum.
  sum_->begin(storage_.find(kLossAndCount)->data);
  norm_and_scale_->begin(storage_.find(kNormAndScaleValue)->data);
}

StepResult TrainingStep::result() const {
  LossSum sum;
  float norm_and_scale[2];
  std::memcpy(&sum, sum_->wait(), sizeof sum);
  std::memcpy(norm_and_scale, norm_and_scale_->wait(), sizeof norm_and_scale);
  return {.loss = sum.total_loss() / sum.total_count(),
          .grad_norm = double(norm_and_scale[0]),
          .applied = std::isfinite(norm_and_scale[1])};  // the optimizer has changed nothing otherwise
}

Executable& TrainingStep::executable(int64_t recurrence) {
  const auto found = executables_.find(recurrence);
  require(found != executables_.end(), "a number of recurrent steps that the model is trained at");
  return found->second;
}

}  // namespace genesis
