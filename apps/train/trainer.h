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
  void accumulate_gradients();
  double update_parameters();  // returns the learning rate
  void count_step(bool applied);
  void stop_if_lost() const;  // throws Error after too many steps in a row that were not applied
  void evaluate(const std::function<bool()>& stop);
  void save();
  int64_t tokens_per_step() const { return config_.train.batch_size * config_.data.sequence_length; }

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
