#include "apps/train/evaluator.h"

#include <algorithm>
#include <numbers>
#include <utility>

#include "apps/train/training_step.h"
#include "kernels/common/error.h"
#include "model/decoder.h"
#include "model/executions.h"

namespace genesis {

std::vector<ValidationGraph> validation_graphs(const Config& config, DType dtype) {
  if (config.data.validation.empty()) return {};
  std::vector<int64_t> recurrence = config.eval.recurrence;
  if (recurrence.empty()) recurrence = {trained_recurrence(config.model)};
  const BatchShape shape{config.train.micro_batch, config.data.sequence_length, config.data.document_mask};
  const bool recurrent = config.model.recurrence.core > 0;
  std::vector<ValidationGraph> graphs;
  for (int64_t k : recurrence) {
    graphs.push_back(
        {recurrent ? std::optional(k) : std::nullopt, build_loss_graph(config.model, shape, dtype, k)});
  }
  return graphs;
}

Evaluator::Evaluator(const Config& config, const std::vector<std::shared_ptr<const TokenDataset>>& data,
                     DType dtype, Storage& storage)
    : max_batches_(config.eval.batches), storage_(storage) {
  LoaderOptions options;
  options.T = config.data.sequence_length;
  options.micro_batch = config.train.micro_batch;
  options.document_mask = config.data.document_mask;
  options.overlap = config.eval.overlap;
  for (const auto& d : data) loaders_.emplace_back(d, options);
  for (ValidationGraph& v : validation_graphs(config, dtype)) {
    models_.push_back({v.recurrence, Executable(std::move(v.graph), storage)});
  }
}

std::vector<std::optional<int64_t>> Evaluator::recurrences() const {
  std::vector<std::optional<int64_t>> all;
  for (const Model& model : models_) all.push_back(model.recurrence);
  return all;
}

int64_t Evaluator::batches_of(const ValidationLoader& loader) const {
  return max_batches_ > 0 ? std::min(loader.micro_batches(), max_batches_) : loader.micro_batches();
}

int64_t Evaluator::batches() const {
  int64_t sum = 0;
  for (const ValidationLoader& loader : loaders_) sum += batches_of(loader);
  return sum;
}

std::optional<EvalRecord> Evaluator::run(std::optional<int64_t> recurrence, int64_t step,
                                         const std::function<bool()>& stop,
                                         const std::function<void()>& done) {
  const auto model = std::find_if(models_.begin(), models_.end(),
                                  [&](const Model& m) { return m.recurrence == recurrence; });
  require(model != models_.end(), "a validation that the config asks for");
  double loss = 0, targets = 0, bytes = 0;
  for (const ValidationLoader& loader : loaders_) {
    double seen = 0;
    for (int64_t i = 0; i < batches_of(loader); ++i) {
      if (stop()) return std::nullopt;
      feed(storage_, loader.batch(i));
      model->executable.run(Phase::begin);
      model->executable.run(Phase::micro);
      LossSum sum;
      storage_.read(kLossAndCount, &sum, sizeof sum);
      loss += sum.total_loss();
      seen += sum.total_count();
      done();
    }
    targets += seen;
    // Exact for a whole set; a part of one counts as that part of its bytes.
    bytes += double(loader.data().bytes()) * seen / double(loader.data().tokens());
  }
  return EvalRecord{step, recurrence, loss / targets, loss / std::numbers::ln2 / bytes};
}

}  // namespace genesis
