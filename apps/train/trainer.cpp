#include "apps/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "apps/device.h"
#include "apps/error_text.h"
#include "apps/train/resume.h"
#include "apps/train/schedule_change.h"
#include "apps/train/training_graph.h"
#include "apps/version.h"
#include "engine/passes/plan_memory.h"
#include "io/file.h"
#include "io/format.h"
#include "io/run_dir.h"
#include "kernels/common/error.h"
#include "model/executions.h"
#include "model/hugging_face.h"
#include "model/init.h"
#include "model/parameters.h"

namespace genesis {
namespace {

LoaderOptions loader_options(const Config& config, int64_t first_sample) {
  LoaderOptions o;
  o.T = config.data.sequence_length;
  o.batch_size = config.train.batch_size;
  o.micro_batch = config.train.micro_batch;
  o.seed = uint64_t(config.train.seed);
  o.document_mask = config.data.document_mask;
  o.first_sample = first_sample;
  return o;
}

// Bytes of all that is allocated beside the arena, once it and the arena are checked to fit. Training and validation
// have one arena, since one runs at a time, and the same values, but constants of their own.
size_t checked_to_fit(const Config& config, const Graph& training, const Target& target) {
  size_t persistent = persistent_bytes(training), arena = plan_memory(training, target.device).bytes;
  for (const auto& [recurrence, graph] : validation_graphs(config, target.dtype)) {
    const MemoryPlan plan = plan_memory(graph, target.device);
    arena = std::max(arena, plan.bytes);
    persistent += plan.constant_bytes;
  }
  check_fits(config, persistent, arena, target.memory);
  return persistent;
}

void keep_tokenizer(const Config& config) {
  const std::string text = read_text_file(config.data.tokenizer), kept = kept_tokenizer(config.run_dir);
  std::error_code unreadable;
  if (std::filesystem::exists(kept, unreadable) && read_text_file(kept) == text) return;
  replace_text_file(kept, text);
}

}  // namespace

Trainer::Trainer(const Config& config, Terminal terminal, MeasurePeak measure_peak)
    : config_(config),
      data_(open_data(config)),
      device_(open_device(config.device)),
      storage_(*device_),
      seconds_(terminal.seconds),
      measure_peak_(std::move(measure_peak)) {
  const Target target = target_on(config, *device_);
  Graph graph = build_training_graph(config, target).graph;
  const size_t persistent = checked_to_fit(config, graph, target);
  // Made only to be refused here, before anything is allocated, when the data does not suffice or there is no
  // thread for it.
  Loader(data_.train, loader_options(config, 0));

  // What fails from here on leaves the run's folder as it was found: the claim sees to it until the run begins.
  claim_ = std::make_unique<RunClaim>(
      claim_run_dir(config.run_dir, print_config(config), [&](const std::string& held, const std::string&) {
        return config_differences(parse_config(held, config.run_dir + "/config.yaml"), config);
      }));
  std::vector<std::string> lines;
  const auto say = [&](const std::string& line) { lines.push_back(line); };
  const auto checkpoint = checkpoint_to_go_on_from(config, data_, target.dtype, say);
  flops_a_step_ = model_flops(graph) * double(config.train.batch_size / config.train.micro_batch);
  step_ = std::make_unique<TrainingStep>(
      std::map<int64_t, Graph>{{trained_recurrence(config.model), std::move(graph)}}, config.optim, storage_);
  evaluator_ = std::make_unique<Evaluator>(config, data_.validation, target.dtype, storage_);
  memory_bytes_ = persistent + storage_.arena_bytes();
  if (checkpoint) {
    resume(*checkpoint, say);
  } else {
    initialise();
    say("a new run in " + config.run_dir);
  }
  state_.config = print_config(config);
  state_.dtype = name_of(target.dtype);
  state_.data = data_.identities;
  extras_.origin = {version_text("genesis_train"), in_words(*device_, config.device), 1,
                    trained_recurrence(config.model)};
  extras_.files = hugging_face_files(config, target.dtype, data_.tokenizer ? &*data_.tokenizer : nullptr,
                                     data_.train[0].data->info().eod);
  loader_ = std::make_unique<Loader>(data_.train, loader_options(config, state_.samples));
  if (data_.tokenizer) keep_tokenizer(config);
  log_ =
      std::make_unique<RunLog>(RunLog::Options{config.run_dir, config.train.steps, state_.step,
                                               config.log.every, config.log.metrics, config.log.tensorboard},
                               terminal);
  claim_->begin();
  set_broken_aside(config.run_dir, state_.step, say);
  log_->message(fmt::format("{} parameters, {} on {}, {} tokens a step, {} of memory",
                            format_count(double(parameter_count(config.model))), name_of(target.dtype),
                            in_words(*device_, config.device), format_count(double(tokens_per_step())),
                            format_bytes(double(memory_bytes_))));
  for (const std::string& line : lines) log_->message(line);
}

void Trainer::initialise() {
  state_.seed = uint64_t(config_.train.seed);
  if (data_.tokenizer) state_.tokenizer_hash = data_.tokenizer->hash();
  initialise_parameters(config_.model, state_.seed, storage_);
}

void Trainer::resume(const std::string& checkpoint, const Warn& say) {
  state_ = load_run(checkpoint, storage_);
  saved_step_ = state_.step;
  state_.schedule_begin = schedule_begin(config_, state_, say);
  say(fmt::format("going on from {} (step {})", checkpoint, state_.step));
  if (const std::string reason = why_unsound(checkpoint); !reason.empty()) {
    say(fmt::format("this checkpoint is not sound: {}. To go on from an older one, move {} away", reason,
                    checkpoint));
  }
}

void Trainer::run(const std::function<bool()>& stop) {
  saved_at_ = seconds_();
  const int64_t steps = config_.train.steps;
  const auto say = [&](const std::string& line) { save_if_fails([&] { log_->message(line); }); };
  if (state_.step >= steps) say(fmt::format("nothing left to train: all {} steps are done", steps));
  validate(left_out(), stop);
  bool stopped = stop();
  if (state_.step < steps && !stopped) {
    save_if_fails([&] { step_->prepare(); });
    peak_flops_ = measure_peak_(*device_, compute_type(config_.device, device_->kind()));
    say(fmt::format("MFU is of the {:.0f} GFLOP/s that a large product reaches here now", peak_flops_ / 1e9));
  }
  while (state_.step < steps && !stopped) {
    const StepRecord record = take_step();
    save_if_fails([&] { log_->step(record); });
    stop_if_lost();
    end_save(false);
    stopped = stop();
    // Saved first: validation takes its time, and may be killed.
    const bool last = state_.step == steps;
    if (last || stopped) {
      end_save(true);
      save();
    } else if (is_due(config_.checkpoint.every) || is_late()) {
      begin_save();
    }
    if ((is_due(config_.eval.every) || last) && !stopped) {
      validate(evaluator_->recurrences(), stop);
      stopped = stop();
      if (stopped) end_save(true);
      if (stopped && saved_step_ != state_.step) save();
    }
  }
  if (stopped) {
    say(fmt::format("stopped after step {} of {}; the same command goes on from there", state_.step, steps));
  }
  log_->finish();
}

bool Trainer::is_due(int64_t every) const { return every > 0 && state_.step % every == 0; }

void Trainer::validate(const Recurrences& recurrences, const std::function<bool()>& stop) {
  if (recurrences.empty()) return;
  save_if_fails([&] {
    log_->begin_validation(int64_t(recurrences.size()) * evaluator_->batches());
    for (const auto& recurrence : recurrences) {
      const auto record = evaluator_->run(recurrence, state_.step, stop, [&] { log_->validated_batch(); });
      if (!record) break;
      log_->evaluation(*record);
    }
    log_->end_validation();
  });
}

Trainer::Recurrences Trainer::left_out() const {
  const bool due = is_due(config_.eval.every) || state_.step >= config_.train.steps;
  Recurrences left = evaluator_->recurrences();
  if (state_.step == 0 || !due) return {};
  for (const auto& done : log_->evaluated()) std::erase(left, done);
  return left;
}

StepRecord Trainer::take_step() {
  const auto start = std::chrono::steady_clock::now();
  save_if_fails([&] { accumulate_gradients(); });
  const double lr = next_learning_rate(config_, state_);
  step_->update(lr, state_.optimizer_step + 1);
  const StepResult result = step_->result();
  count_step(result.applied);

  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  step_time_.add(seconds);
  StepRecord record;
  record.step = state_.step;
  record.loss = result.loss;
  record.grad_norm = result.grad_norm;
  record.lr = lr;
  record.tokens_per_second = double(tokens_per_step()) / seconds;
  record.mfu = flops_a_step_ / seconds / peak_flops_;
  record.memory_bytes = int64_t(memory_bytes_);
  record.tokens = state_.tokens;
  record.eta_seconds = step_time_.typical() * double(config_.train.steps - state_.step);
  record.skipped = !result.applied;
  return record;
}

void Trainer::accumulate_gradients() {
  const int64_t recurrence = trained_recurrence(config_.model);
  step_->begin();
  for (int64_t i = 0; i < loader_->micro_batches(); ++i) step_->micro(loader_->next(), recurrence);
}

void Trainer::count_step(bool applied) {
  state_.step += 1;
  state_.tokens += tokens_per_step();
  state_.samples = loader_->position();
  state_.optimizer_step += applied;
  state_.bad_steps += !applied;
  state_.bad_steps_in_a_row = applied ? 0 : state_.bad_steps_in_a_row + 1;
}

void Trainer::stop_if_lost() const {
  check(state_.bad_steps_in_a_row < config_.train.max_bad_steps,
        fmt::format("step {}: the loss or its gradient has not been finite for {} steps in a row, which is "
                    "train.max_bad_steps; none of them was applied. Lower optim.lr, or look at the data",
                    state_.step, state_.bad_steps_in_a_row));
}

std::string Trainer::write_checkpoint() {
  std::string told;
  RunSnapshot(config_, state_, storage_, extras_, false).write([&](const std::string& line) {
    told += (told.empty() ? "" : "; ") + line;
  });
  saved_step_ = state_.step;
  saved_at_ = seconds_();
  failed_saves_ = 0;
  return told;
}

// Of checkpoint.async the writing is done by another thread, from a copy: training waits for that alone, and for the
// one before if that is not written yet.
void Trainer::begin_save() {
  const bool async = config_.checkpoint.async;
  const double begin = seconds_();
  end_save(true);
  if (const double waited = seconds_() - begin; waited >= 1) {
    save_if_fails([&] {
      log_->message(fmt::format("waited {:.0f} s for the checkpoint before to be written", waited));
    });
  }
  saved_at_ = seconds_();
  std::optional<RunSnapshot> snapshot;
  save_if_fails([&] { snapshot.emplace(config_, state_, storage_, extras_, async); });  // memory may be short
  const auto write = [held = *snapshot] {
    std::string told;
    held.write([&](const std::string& line) { told += (told.empty() ? "" : "; ") + line; });
    return told;
  };
  writing_ = {state_.step, std::async(async ? std::launch::async : std::launch::deferred, write)};
  if (!async) end_save(true);
}

// A save that fails loses nothing that was saved before, and the next one may succeed.
void Trainer::end_save(bool wait) {
  if (!writing_) return;
  if (!wait && writing_->told.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  Writing done = std::move(*writing_);
  writing_.reset();
  std::string told;
  try {
    told = done.told.get();
    saved_step_ = done.step;
    failed_saves_ = 0;
  } catch (const std::exception& error) {
    ++failed_saves_;
    const std::string held = saved_step_ > 0 ? fmt::format("step {} is the last that is saved", saved_step_)
                                             : std::string("nothing is saved yet");
    check(failed_saves_ < config_.checkpoint.failures,
          fmt::format("step {} could not be saved: {}. This was save {} in a row to fail, which is "
                      "checkpoint.failures; {}",
                      done.step, error_text(error), failed_saves_, held));
    told = fmt::format("WARNING: step {} could not be saved, and training goes on: {}; {}", done.step,
                       error_text(error), held);
  }
  if (!told.empty()) save_if_fails([&] { log_->message(told); });
}

// A checkpoint is late after checkpoint.minutes without one.
bool Trainer::is_late() const {
  const auto minutes = double(config_.checkpoint.minutes);
  return minutes > 0 && seconds_() - saved_at_ >= 60 * minutes;
}

void Trainer::save() {
  if (const std::string told = write_checkpoint(); !told.empty()) log_->message(told);
}

void Trainer::save_if_fails(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    throw Error(error_text(error) + save_after_failure());
  }
}

std::string Trainer::save_after_failure() {
  if (state_.step == 0) return "";
  try {
    if (writing_) writing_->told.wait();  // one at a time
    const std::string told = saved_step_ == state_.step ? "" : write_checkpoint();
    return fmt::format("; step {} is saved, and the same command goes on from there{}{}", state_.step,
                       told.empty() ? "" : "; ", told);
  } catch (const std::exception& error) {
    return fmt::format("; and step {} could not be saved either: {}", state_.step, error_text(error));
  }
}

}  // namespace genesis
