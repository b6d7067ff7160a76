#include "io/config/check.h"

#include <fmt/format.h>

#include <initializer_list>
#include <set>
#include <string_view>

#include "kernels/common/error.h"

namespace genesis::config {
namespace {

struct Checker {
  const Config& config;
  const Origins& origins;
  const std::string& name;

  // `fields`: those that take part, the likeliest to be wrong first.
  void expect(bool ok, std::initializer_list<const char*> fields, const std::string& message) const {
    if (ok) return;
    for (const char* field : fields) {
      if (const auto origin = origins.find(field); origin != origins.end()) {
        throw Error(origin->second + ": " + message);
      }
    }
    throw Error(name + ": " + message);
  }

  void model() const {
    const Config::Model& m = config.model;
    expect(m.heads % m.kv_heads == 0, {"model.kv_heads", "model.heads"},
           fmt::format("model.heads ({}) has to be a multiple of model.kv_heads ({})", m.heads, m.kv_heads));
    const Config::Recurrence& r = m.recurrence;
    if (r.core == 0) {
      expect(r == Config::Recurrence{},
             {"model.recurrence.steps", "model.recurrence.prelude", "model.recurrence.coda"},
             "model.recurrence needs a core of at least one layer; for a dense model leave the section out");
      return;
    }
    expect(r.prelude + r.core + r.coda == m.layers,
           {"model.recurrence.core", "model.recurrence.prelude", "model.recurrence.coda", "model.layers"},
           fmt::format("model.recurrence: prelude + core + coda ({} + {} + {}) has to be model.layers ({})",
                       r.prelude, r.core, r.coda, m.layers));
  }

  void data() const {
    const Config::Data& d = config.data;
    std::set<std::string_view> seen;
    for (const auto& [path, weight] : d.train) {
      expect(seen.insert(path).second, {"data.train"},
             fmt::format("data.train: {} is there twice; give it a larger weight", path));
    }
    for (const std::string& path : d.validation) {
      expect(seen.insert(path).second, {"data.validation"},
             fmt::format("data.validation: {} is there twice, or is trained on too", path));
    }
    expect(config.eval.every == 0 || !d.validation.empty(), {"eval.every"},
           "eval.every is set and data.validation is empty; name a validation dataset");
  }

  void train() const {
    const Config::Train& t = config.train;
    expect(t.batch_size % t.micro_batch == 0, {"train.batch_size", "train.micro_batch"},
           fmt::format("train.batch_size ({}) has to be a multiple of train.micro_batch ({})", t.batch_size,
                       t.micro_batch));
    constexpr double kMostTokens = 0x1p62;  // counts of them are 64-bit integers
    const double sequences = static_cast<double>(t.steps) * static_cast<double>(t.batch_size);
    expect(sequences * static_cast<double>(config.data.sequence_length) < kMostTokens,
           {"train.steps", "train.batch_size"},
           "train.steps x train.batch_size x data.sequence_length is over 2^62 tokens");
  }

  void optim() const {
    const Config::Optim& o = config.optim;
    expect(
        o.kind == Config::OptimKind::muon || o.matrix_lr == 0, {"optim.matrix_lr"},
        "optim.matrix_lr is set, and optim.kind is adamw, which has one rate for all; leave it out, or set "
        "optim.kind: muon");
  }

  void schedule() const {
    const Config::Schedule& s = config.schedule;
    const int64_t steps = config.train.steps;
    expect(s.min_lr <= config.optim.lr, {"schedule.min_lr", "optim.lr"},
           fmt::format("schedule.min_lr ({}) has to be at most optim.lr ({})", s.min_lr, config.optim.lr));
    expect(s.warmup_steps < steps, {"schedule.warmup_steps", "train.steps"},
           fmt::format("schedule.warmup_steps ({}) has to be below train.steps ({})", s.warmup_steps, steps));
    if (s.kind != Config::ScheduleKind::wsd) return;
    expect(s.decay_steps >= 1, {"schedule.decay_steps", "schedule.kind"},
           "schedule.kind is wsd: schedule.decay_steps has to be at least 1");
    expect(s.warmup_steps + s.decay_steps <= steps, {"schedule.decay_steps", "train.steps"},
           fmt::format(
               "schedule.warmup_steps + schedule.decay_steps ({} + {}) has to be at most train.steps ({})",
               s.warmup_steps, s.decay_steps, steps));
  }

  void eval() const {
    expect(config.eval.overlap < config.data.sequence_length, {"eval.overlap", "data.sequence_length"},
           "eval.overlap (" + std::to_string(config.eval.overlap) +
               ") has to be below data.sequence_length (" + std::to_string(config.data.sequence_length) +
               ")");
    expect(
        !config.checkpoint.keep_best || (config.eval.every > 0 && config.log.metrics),
        {"checkpoint.keep_best", "eval.every", "log.metrics"},
        "checkpoint.keep_best goes by the validations in metrics.jsonl; it needs eval.every and log.metrics");
    const std::vector<int64_t>& steps = config.eval.recurrence;
    expect(steps.empty() || config.model.recurrence.core > 0, {"eval.recurrence"},
           "eval.recurrence is set and the model is dense; see model.recurrence");
    expect(std::set(steps.begin(), steps.end()).size() == steps.size(), {"eval.recurrence"},
           "eval.recurrence names a number twice");
  }
};

}  // namespace

void check_together(const Config& config, const Origins& origins, const std::string& name) {
  const Checker checker{config, origins, name};
  checker.model();
  checker.data();
  checker.train();
  checker.optim();
  checker.schedule();
  checker.eval();
}

}  // namespace genesis::config
