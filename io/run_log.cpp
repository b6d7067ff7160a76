#include "io/run_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/format.h"
#include "io/json.h"
#include "io/tensorboard.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLinesPerHeader = 40;

// Bytes of the records of steps up to `done_steps`. Records are in order of steps, because this cuts the rest
// off before more are appended; a last line that the process did not live to finish is cut off too.
size_t bytes_to_keep(const std::string& path, int64_t done_steps) {
  const std::string text = read_text_file(path);
  size_t begin = 0;
  int number = 1;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1, ++number) {
    const std::string where = fmt::format("{}:{}", path, number);
    const nlohmann::json record = parse_json(std::string_view(text).substr(begin, end - begin), where, 2);
    check(record.is_object() && record.contains("step") && record["step"].is_number_integer(),
          where + ": expected a record with a step; move the file away to go on");
    if (record["step"].get<int64_t>() > done_steps) break;
  }
  return begin;
}

class MetricsFile {
 public:
  MetricsFile(std::string path, int64_t done_steps) : path_(std::move(path)) {
    if (std::filesystem::exists(path_)) {
      std::error_code error;
      std::filesystem::resize_file(path_, bytes_to_keep(path_, done_steps), error);
      check(!error, fmt::format("{}: cannot write: {}", path_, error.message()));
    }
    file_.open(path_, std::ios::binary | std::ios::app);
    check(file_.is_open(), fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }

  // JSON has no NaN and no infinity: they become null.
  void write(const Json& record) {
    file_ << record.dump() << '\n' << std::flush;
    check(file_.good(), fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }

 private:
  std::string path_;
  std::ofstream file_;
};

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

std::string console_header() {
  return fmt::format("{:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>9} {:>8}", "step", "loss", "grad norm", "lr",
                     "tokens/s", "MFU", "memory", "left");
}

std::string console_line(const StepRecord& r) {
  const std::string mfu = r.mfu ? fmt::format("{:.1f}%", 100.0 * *r.mfu) : "-";
  return fmt::format("{:>9} {:>9.4f} {:>9.4f} {:>9.2e} {:>9} {:>6} {:>9} {:>8}{}", r.step, r.loss,
                     r.grad_norm, r.lr, format_count(r.tokens_per_second), mfu,
                     format_bytes(static_cast<double>(r.memory_bytes)), format_duration(r.eta_seconds),
                     r.skipped ? "  skipped: not finite" : "");
}

std::string console_line(const EvalRecord& r) {
  return fmt::format("{:>9} {:>9.4f} validation{}{}", r.step, r.loss,
                     r.recurrence ? fmt::format(", {} recurrent steps", *r.recurrence) : "",
                     r.bits_per_byte ? fmt::format(": {:.4f} bits per byte", *r.bits_per_byte) : "");
}

}  // namespace

struct RunLog::Sinks {
  Options options;
  ProgressBar bar;
  std::optional<MetricsFile> metrics;
  std::optional<EventFile> events;
  int lines_to_header = 0;

  template <class Record>
  void write_files(const Record& record) {
    if (metrics) metrics->write(json_of(record));
    if (events) events->write(record.step, scalars_of(record));
  }
};

RunLog::RunLog(const Options& options, Terminal terminal)
    : sinks_(new Sinks{.options = options,
                       .bar = {{.label = "train",
                                .total = options.total_steps,
                                .noun = "steps",
                                .start = options.done_steps,
                                .plain_lines = false},
                               std::move(terminal)},
                       .metrics = {},
                       .events = {}}) {
  if (options.metrics) sinks_->metrics.emplace(options.run_dir + "/metrics.jsonl", options.done_steps);
  if (options.tensorboard) sinks_->events.emplace(options.run_dir + "/tensorboard", options.done_steps);
}

RunLog::~RunLog() = default;

void RunLog::step(const StepRecord& record) {
  sinks_->write_files(record);
  sinks_->bar.advance(1);
  const Options& options = sinks_->options;
  const bool shown = record.step % options.console_every == 0 || record.step == options.done_steps + 1 ||
                     record.step == options.total_steps || record.skipped;
  if (!shown) return;
  if (sinks_->lines_to_header-- == 0) {
    sinks_->bar.print_line(console_header());
    sinks_->lines_to_header = kLinesPerHeader - 1;
  }
  sinks_->bar.print_line(console_line(record));
}

void RunLog::evaluation(const EvalRecord& record) {
  sinks_->write_files(record);
  sinks_->bar.print_line(console_line(record));
}

void RunLog::message(const std::string& line) { sinks_->bar.print_line(line); }

void RunLog::finish() { sinks_->bar.finish(); }

}  // namespace genesis
