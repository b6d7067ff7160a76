// What a run reports as it goes: a console line a step, metrics.jsonl and TensorBoard event files in the run
// folder. One process of a run writes it.
//
// A line of metrics.jsonl is an object: {"kind": "step", ...} with StepRecord's fields but the time left, or
// {"kind": "eval", ...} with EvalRecord's. A number that is not finite is null, one that is not known is left
// out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/progress.h"

namespace genesis {

struct StepRecord {
  int64_t step = 0;        // steps done, this one included: the first is 1
  double loss = 0.0;       // nats a token, mean over the global batch
  double grad_norm = 0.0;  // before clipping
  double lr = 0.0;
  double tokens_per_second = 0.0;
  // Model FLOP utilisation: the model's FLOP/s, of what a large product reached when the run was started. None in a
  // log that does not tell.
  std::optional<double> mfu;
  int64_t memory_bytes = 0;  // of the device, in use
  int64_t tokens = 0;        // seen since the start of training
  double eta_seconds = 0.0;  // to the end of training
  bool skipped = false;      // not finite: the update was not applied
};

struct EvalRecord {
  int64_t step = 0;
  std::optional<int64_t> recurrence;  // recurrent steps evaluated at; none: a dense model
  double loss = 0.0;                  // nats a token
  std::optional<double> bits_per_byte;
};

class RunLog {
 public:
  struct Options {
    std::string run_dir;  // exists
    int64_t total_steps = 0;
    int64_t done_steps = 0;  // resumed from: later records of an earlier try are removed
    int64_t console_every = 1;
    bool metrics = true;
    bool tensorboard = true;
  };

  RunLog(const Options& options, Terminal terminal);
  ~RunLog();

  // Each is an Error, which names what could not be written, when a file or the console does not take it.
  void step(const StepRecord& record);
  void evaluation(const EvalRecord& record);
  void message(const std::string& line);  // to the console alone
  void finish();                          // takes the progress bar off the screen

  // While it validates there is progress to see: a bar of its own, or a plain line every few seconds.
  void begin_validation(int64_t batches);
  void validated_batch();
  void end_validation();

  // The numbers of recurrent steps (none: a dense model) that step `done_steps` was validated at before, as far as
  // metrics.jsonl tells.
  std::vector<std::optional<int64_t>> evaluated() const;

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
};

}  // namespace genesis
