// The training run: data, graph, checkpoints and log put together.
#pragma once

#include <functional>
#include <memory>

#include "apps/train/data.h"
#include "apps/train/evaluator.h"
#include "engine/runtime/executable.h"
#include "io/checkpoint.h"
#include "io/config.h"
#include "io/loader.h"
#include "io/run_dir.h"
#include "io/run_log.h"

namespace genesis {

class Trainer {
 public:
  // Opens and checks everything before anything is written, claims the run's folder, and goes on from its
  // latest checkpoint, or begins anew.
  Trainer(const Config& config, Terminal terminal);

  // Trains to the last step, or until `stop` says so after a step: then what was reached is saved.
  void run(const std::function<bool()>& stop = [] { return false; });

  const TrainState& state() const { return state_; }
  const Storage& storage() const { return storage_; }

 private:
  void resume_or_begin(const std::function<void(const std::string&)>& say);
  StepRecord take_step();
  void evaluate();
  void save();
  double learning_rate_now() const;

  const Config config_;
  RunData data_;
  std::unique_ptr<Device> device_;
  Storage storage_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<RunClaim> claim_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<RunLog> log_;
  TrainState state_;
  double seconds_per_step_ = 0;  // a running mean, for the time left
};

}  // namespace genesis
