// Cross-entropy and bits-per-byte on the validation data.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/runtime/executable.h"
#include "io/config.h"
#include "io/loader.h"
#include "io/run_log.h"

namespace genesis {

class Evaluator {
 public:
  // Prepares one executable for each number of recurrent steps that the config asks for, on the parameters in
  // `storage`. All validation sets count as one. Throws Error for a set that is empty.
  Evaluator(const Config& config, const std::vector<std::shared_ptr<const TokenDataset>>& data, DType dtype,
            Storage& storage);

  // A record for each number of recurrent steps; none without validation data. stop is asked before every
  // micro-batch: once it says so, what is not finished makes no record.
  std::vector<EvalRecord> run(int64_t step, const std::function<bool()>& stop);

 private:
  struct Model {
    std::optional<int64_t> recurrence;  // none for a dense model
    Executable executable;
  };
  std::optional<EvalRecord> evaluate(Model& model, int64_t step, const std::function<bool()>& stop);

  const int64_t max_batches_;  // of each set; 0: all
  Storage& storage_;
  std::vector<ValidationLoader> loaders_;
  std::vector<Model> models_;
};

// Writes a micro-batch to the model's inputs.
void feed(Storage& storage, const Batch& batch);

}  // namespace genesis
