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

struct ValidationGraph {
  std::optional<int64_t> recurrence;  // recurrent steps; none for a dense model
  Graph graph;
};

// What the config's validation runs; nothing where it names no data for it.
std::vector<ValidationGraph> validation_graphs(const Config& config, DType dtype);

class Evaluator {
 public:
  // Prepares one executable for each number of recurrent steps that the config asks for, on the parameters in
  // `storage`. All validation sets count as one. Throws Error for a set that is empty.
  Evaluator(const Config& config, const std::vector<std::shared_ptr<const TokenDataset>>& data, DType dtype,
            Storage& storage);

  // The numbers of recurrent steps that the config asks for (none: a dense model); empty without validation data.
  std::vector<std::optional<int64_t>> recurrences() const;

  // Micro-batches of a validation at one of them.
  int64_t batches() const;

  // A validation at one of recurrences(). `stop` is asked before every micro-batch, `done` told after each; once
  // stop says so, there is no record.
  std::optional<EvalRecord> run(std::optional<int64_t> recurrence, int64_t step,
                                const std::function<bool()>& stop, const std::function<void()>& done);

 private:
  struct Model {
    std::optional<int64_t> recurrence;  // none for a dense model
    Executable executable;
  };
  int64_t batches_of(const ValidationLoader& loader) const;

  const int64_t max_batches_;  // of each set; 0: all
  Storage& storage_;
  std::vector<ValidationLoader> loaders_;
  std::vector<Model> models_;
};

}  // namespace genesis
