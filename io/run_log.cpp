#include "io/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/console_table.h"
#include "io/metrics_file.h"
#include "io/tensorboard.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const StepRecord& r) {
  Json json{{"kind", "step"},           {"step", r.step},
            {"tokens", r.tokens},       {"loss", r.loss},
            {"grad_norm", r.grad_norm}, {"lr", r.lr},
            {"skipped", r.skipped},     {"tokens_per_second", r.tokens_per_second}};
  if (r.mfu) json["mfu"] = *r.mfu;
  json["memory_bytes"] = r.memory_bytes;
  return json;
}

Json json_of(const EvalRecord& r) {
  Json json{{"kind", "eval"}, {"step", r.step}};
  if (r.recurrence) json["recurrence"] = *r.recurrence;
  json["loss"] = r.loss;
  if (r.bits_per_byte) json["bits_per_byte"] = *r.bits_per_byte;
  return json;
}

std::vector<Scalar> scalars_of(const StepRecord& r) {
  std::vector<Scalar> scalars{{"train/loss", r.loss},
                              {"train/grad_norm", r.grad_norm},
                              {"train/lr", r.lr},
                              {"speed/tokens_per_second", r.tokens_per_second},
                              {"speed/memory_bytes", static_cast<double>(r.memory_bytes)}};
  if (r.mfu) scalars.push_back({"speed/mfu", *r.mfu});
  return scalars;
}

std::vector<Scalar> scalars_of(const EvalRecord& r) {
  const std::string suffix = r.recurrence ? fmt::format("_at_{}", *r.recurrence) : "";
  std::vector<Scalar> scalars{{"eval/loss" + suffix, r.loss}};
  if (r.bits_per_byte) scalars.push_back({"eval/bits_per_byte" + suffix, *r.bits_per_byte});
  return scalars;
}

}  // namespace

struct RunLog::Sinks {
  Options options;
  Terminal terminal;
  ProgressBar bar;
  std::optional<ProgressBar> validation;  // stands in the bar's place
  ConsoleTable table;
  std::optional<MetricsFile> metrics;
  std::optional<EventFile> events;

  template <class Record>
  void write_files(const Record& record) {
    if (metrics) metrics->write(json_of(record));
    if (events) events->write(record.step, scalars_of(record));
  }

  // One column is left free: a full last one wraps on some terminals.
  int columns() const { return terminal.interactive ? std::max(terminal.columns() - 1, 1) : 0; }

  void print(const std::vector<std::string>& lines) {
    errno = 0;
    for (const std::string& line : lines) (validation ? *validation : bar).print_line(line);
    check(terminal.out->good(), fmt::format("the console (standard output) cannot be written{}",
                                            errno == 0 ? "" : fmt::format(": {}", std::strerror(errno))));
  }
};

RunLog::RunLog(const Options& options, Terminal terminal)
    : sinks_(new Sinks{.options = options,
                       .terminal = terminal,
                       .bar = {{.label = "train",
                                .total = options.total_steps,
                                .noun = "steps",
                                .start = options.done_steps,
                                .plain_lines = false},
                               terminal},
                       .validation = {},
                       .table = {},
                       .metrics = {},
                       .events = {}}) {
  // The event file is new and can be taken back; metrics.jsonl is cut only once nothing else can fail.
  if (options.tensorboard) sinks_->events.emplace(options.run_dir + "/tensorboard", options.done_steps);
  if (options.metrics) {
    sinks_->metrics.emplace(options.run_dir + "/metrics.jsonl", options.done_steps,
                            [this](const std::string& line) { message(line); });
  }
}

RunLog::~RunLog() = default;

void RunLog::step(const StepRecord& record) {
  sinks_->write_files(record);
  const Options& options = sinks_->options;
  const int64_t left = options.total_steps - record.step;
  if (left > 0) sinks_->bar.set_pace(record.eta_seconds / static_cast<double>(left));
  sinks_->bar.advance(1);
  const bool shown = record.step % options.console_every == 0 || record.step == options.done_steps + 1 ||
                     record.step == options.total_steps || record.skipped;
  if (shown) sinks_->print(sinks_->table.lines(record, sinks_->columns()));
}

void RunLog::evaluation(const EvalRecord& record) {
  sinks_->write_files(record);
  sinks_->print(ConsoleTable::lines(record, sinks_->columns()));
}

void RunLog::message(const std::string& line) { sinks_->print(ConsoleTable::lines(line, sinks_->columns())); }

void RunLog::finish() { sinks_->bar.finish(); }

void RunLog::begin_validation(int64_t batches) {
  sinks_->bar.hide();
  sinks_->validation.emplace(ProgressBar::Options{.label = "validation", .total = batches, .noun = "batches"},
                             sinks_->terminal);
}

void RunLog::validated_batch() { sinks_->validation->advance(1); }

void RunLog::end_validation() { sinks_->validation.reset(); }

std::vector<std::optional<int64_t>> RunLog::evaluated() const {
  return sinks_->metrics ? sinks_->metrics->evaluated() : std::vector<std::optional<int64_t>>{};
}

}  // namespace genesis
