// The training run: data, graph, checkpoints and log put together.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "apps/train/checkpoints.h"
#include "apps/train/data.h"
#include "apps/train/evaluator.h"
#include "apps/train/peak.h"
#include "apps/train/step_time.h"
#include "apps/train/training_step.h"
#include "io/checkpoint.h"
#include "io/config.h"
#include "io/loader.h"
#include "io/run_dir.h"
#include "io/run_log.h"

namespace genesis {

class Trainer {
 public:
  // Opens and checks everything, claims the run's folder, and goes on from its latest checkpoint, or begins anew. On
  // an Error the folder is as it was found. A plan that doesn't fit into memory is refused before anything is
  // allocated. The peak is measured when there are steps to take.
  using MeasurePeak = std::function<double(Device& device, DType dtype)>;  // in FLOP/s
  Trainer(const Config& config, Terminal terminal, MeasurePeak measure_peak = measure_peak_flops);

  // Trains to the last step, or until `stop` says so after a step or before a batch of validation: then what was
  // reached is saved, and a validation that was left out is made up when the run goes on. What fails between two
  // steps (a full disk under the log, say) is an Error once the step that was reached is saved.
  void run(const std::function<bool()>& stop = [] { return false; });

  const TrainState& state() const { return state_; }
  const Storage& storage() const { return storage_; }

 private:
  void initialise();
  void resume(const std::string& checkpoint, const Warn& say);
  StepRecord take_step();
  void accumulate_gradients();
  void count_step(bool applied);
  void stop_if_lost() const;  // throws Error after too many steps in a row that were not applied
  bool is_due(int64_t every) const;
  using Recurrences = std::vector<std::optional<int64_t>>;
  void validate(const Recurrences& recurrences, const std::function<bool()>& stop);
  Recurrences left_out() const;    // of the validation of the step that the run goes on from
  std::string write_checkpoint();  // returns what there is to tell
  void save();
  void begin_save();
  void end_save(bool wait);
  bool is_late() const;
  void save_if_fails(const std::function<void()>& action);
  std::string save_after_failure();  // returns what became of it, for the message
  int64_t tokens_per_step() const { return config_.train.batch_size * config_.data.sequence_length; }

  const Config config_;
  RunData data_;
  std::unique_ptr<Device> device_;
  Storage storage_;
  std::unique_ptr<TrainingStep> step_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<RunClaim> claim_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<RunLog> log_;
  TrainState state_;
  CheckpointExtras extras_;
  size_t memory_bytes_ = 0;          // of the device, that the run holds
  int64_t saved_step_ = 0;           // of the last checkpoint; 0: none
  std::function<double()> seconds_;  // the terminal's clock
  double saved_at_ = 0;              // by it: the last checkpoint, or the run's begin
  int64_t failed_saves_ = 0;         // in a row
  StepTime step_time_;
  MeasurePeak measure_peak_;
  double peak_flops_ = 0;    // a second, that the device was seen to reach
  double flops_a_step_ = 0;  // of the model
  struct Writing {
    int64_t step = 0;
    std::future<std::string> told;
  };
  std::optional<Writing> writing_;  // a checkpoint; last, so that it ends before what it needs
};

}  // namespace genesis
