#include "apps/score/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "apps/device.h"
#include "apps/open_model.h"
#include "apps/report/run_folder.h"
#include "apps/train/checkpoints.h"
#include "kernels/common/error.h"
#include "model/executions.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTokensAtOnce = 4096;  // in a batch: large products, and activations of some megabytes

// A model made ready for one config; the next checkpoint of the same takes only new parameters.
class LoadedModel {
 public:
  LoadedModel(const Config& config, const EvaluationOptions& o)
      : config_(config),
        T_(o.context > 0 ? o.context : config.data.sequence_length),
        device_(open_device(config.device)),
        storage_(*device_) {
    std::vector<int64_t> recurrence = o.recurrence;
    if (recurrence.empty()) recurrence = {0};
    for (int64_t k : recurrence) {
      recurrence_.push_back(recurrence_of(config.model, k));
      scorers_.push_back(std::make_unique<Scorer>(config.model, std::max<int64_t>(1, kTokensAtOnce / T_), T_,
                                                  compute_type(config.device, device_->kind()),
                                                  recurrence_.back(), storage_));
    }
  }

  bool fits(const Config& config) const {
    return config.model == config_.model && config.device == config_.device &&
           config.data.sequence_length == config_.data.sequence_length;
  }
  void load(const std::string& checkpoint) { load_parameters(checkpoint, storage_); }

  std::vector<Scorer*> scorers() const {
    std::vector<Scorer*> list;
    for (const auto& s : scorers_) list.push_back(s.get());
    return list;
  }
  std::optional<int64_t> recurrence(size_t scorer) const {
    return config_.model.recurrence.core > 0 ? std::optional(recurrence_[scorer]) : std::nullopt;
  }
  int64_t T() const { return T_; }

 private:
  const Config config_;
  const int64_t T_;
  std::unique_ptr<Device> device_;
  Storage storage_;
  std::vector<int64_t> recurrence_;
  std::vector<std::unique_ptr<Scorer>> scorers_;
};

// The checkpoints that are asked for: a folder's name stands for itself, a run's for its latest or for all.
std::vector<ModelSource> sources_of(const EvaluationOptions& o, const Warn& warn) {
  std::vector<ModelSource> sources;
  for (const std::string& path : o.models) {
    if (!o.all || !fs::is_directory(fs::path(path) / "checkpoints")) {
      sources.push_back(open_model(path, warn));
      continue;
    }
    const size_t before = sources.size();
    for (const CheckpointEntry& c : list_run_checkpoints(path)) {
      if (c.problem.empty()) sources.push_back(open_model(path + "/checkpoints/" + c.name, warn));
      if (!c.problem.empty()) warn("skipping the broken checkpoint " + c.name + ": " + c.problem);
    }
    check(sources.size() > before, path + ": the run has no checkpoint that can be read");
  }
  return sources;
}

// The questions of a file are read once, whatever the number of checkpoints.
using Questions = std::map<std::string, std::vector<Question>>;

class Evaluation {
 public:
  Evaluation(const EvaluationOptions& o, const Terminal& progress) : o_(o), progress_(progress) {
    for (const std::string& path : o.choices) questions_[path] = read_questions(path);
  }

  void add(const ModelSource& source) {
    source_ = &source;
    if (!model_ || !model_->fits(source.config)) model_ = std::make_unique<LoadedModel>(source.config, o_);
    const bool own = o_.texts.empty() && o_.data.empty() && o_.choices.empty();
    const std::vector<std::string>& data = own ? source.config.data.validation : o_.data;
    check(!own || !data.empty(),
          source.checkpoint +
              ": the run has no validation data of its own: name a --text, --data or --choices");
    const std::optional<Tokenizer> tokenizer = find_tokenizer();
    model_->load(source.checkpoint);
    for (const std::string& path : o_.texts) {
      const auto documents =
          documents_of({.files = {path}, .separator = o_.separator, .field = o_.field}, *tokenizer);
      add_text(path, *documents, 0);
    }
    for (const std::string& path : data) {
      const TokenDataset set(path);
      if (tokenizer) set.check_tokenizer(*tokenizer);
      set.check_vocabulary(source.config.model.vocab_size);
      const auto documents = documents_of(set, tokenizer ? &*tokenizer : nullptr);
      add_text(path, *documents, set.tokens());
    }
    for (const auto& path : o_.choices) add_choices(path, *tokenizer);
  }

  std::vector<EvaluationRow> take() { return std::move(rows_); }

 private:
  // Text and questions need one; a data set says its bytes itself.
  std::optional<Tokenizer> find_tokenizer() const {
    const bool needed = !o_.texts.empty() || !o_.choices.empty() || !o_.tokenizer.empty();
    try {
      return open_tokenizer(*source_, o_.tokenizer);
    } catch (const Error&) {
      if (needed) throw;
      return std::nullopt;
    }
  }

  std::string label() const { return fs::path(source_->checkpoint).filename().string(); }

  void add_text(const std::string& set, DocumentSource& documents, int64_t tokens) {
    WindowOptions w;
    w.T = model_->T();
    w.overlap = o_.overlap >= 0 ? o_.overlap : std::min(source_->config.eval.overlap, w.T - 1);
    w.most_tokens = o_.most_tokens;
    check(w.overlap < w.T,
          fmt::format("--overlap {} is not less than the context of {} tokens", w.overlap, w.T));
    if (o_.most_tokens > 0) tokens = tokens == 0 ? o_.most_tokens : std::min(tokens, o_.most_tokens);
    ProgressBar bar({.label = label(), .total = tokens, .noun = "tokens", .plain_lines = false}, progress_);
    const auto scores = score_text(documents, w, model_->scorers(), [&](int64_t n) { bar.advance(n); });
    for (size_t i = 0; i < scores.size(); ++i) add_row(set, i, scores[i]);
  }

  void add_choices(const std::string& path, const Tokenizer& tokenizer) {
    const std::vector<Question>& questions = questions_.at(path);
    ProgressBar bar(
        {.label = label(), .total = int64_t(questions.size()), .noun = "questions", .plain_lines = false},
        progress_);
    const auto scores = score_choices(questions, tokenizer, model_->T(), model_->scorers(),
                                      [&](int64_t n) { bar.advance(n); });
    for (size_t i = 0; i < scores.size(); ++i) add_row(path, i, scores[i]);
  }

  void add_row(const std::string& set, size_t scorer, std::variant<TextScore, ChoiceScore> score) {
    rows_.push_back(
        {source_->checkpoint, source_->state.step, model_->recurrence(scorer), set, std::move(score)});
  }

  const EvaluationOptions& o_;
  const Terminal& progress_;
  Questions questions_;
  std::unique_ptr<LoadedModel> model_;
  const ModelSource* source_ = nullptr;
  std::vector<EvaluationRow> rows_;
};

// Half of an interval's width, the way error bars are written.
std::string plus_minus(const Interval& i, int digits) {
  return std::isfinite(i.low) ? fmt::format(" ± {:.{}f}", (i.high - i.low) / 2, digits) : "";
}

nlohmann::ordered_json pair_of(const Interval& i) { return {i.low, i.high}; }

void add_numbers(nlohmann::ordered_json& json, const TextScore& s) {
  json.update({{"loss", s.loss},
               {"loss_interval", pair_of(s.loss_interval)},
               {"bits_per_byte", s.bits_per_byte},
               {"bits_per_byte_interval", pair_of(s.bits_interval)},
               {"documents", s.documents},
               {"tokens", s.tokens},
               {"bytes", s.bytes},
               {"interval_over", s.over_windows ? "windows" : "documents"}});
}

void add_numbers(nlohmann::ordered_json& json, const ChoiceScore& s) {
  json.update({{"accuracy", s.accuracy},
               {"accuracy_interval", pair_of(s.accuracy_interval)},
               {"accuracy_norm", s.accuracy_norm},
               {"accuracy_norm_interval", pair_of(s.norm_interval)},
               {"questions", s.questions},
               {"endings_with_cut_context", s.cut}});
}

std::string words_of(const TextScore& s) {
  return fmt::format("loss {:.4f}{}, {:.4f}{} bits per byte ({} documents, {} tokens{})", s.loss,
                     plus_minus(s.loss_interval, 4), s.bits_per_byte, plus_minus(s.bits_interval, 4),
                     s.documents, s.tokens,
                     s.over_windows ? fmt::format("; ± over {} windows", s.units) : "");
}

std::string words_of(const ChoiceScore& s) {
  return fmt::format("accuracy {:.2f}%{}, by length {:.2f}%{} ({} questions{})", 100 * s.accuracy,
                     plus_minus({100 * s.accuracy_interval.low, 100 * s.accuracy_interval.high}, 2),
                     100 * s.accuracy_norm,
                     plus_minus({100 * s.norm_interval.low, 100 * s.norm_interval.high}, 2), s.questions,
                     s.cut > 0 ? fmt::format("; {} endings lost the beginning of their context", s.cut) : "");
}

// One curve a set and recurrence, in each panel that has it.
class CurvesOfRows {
 public:
  void add(const char* key, const EvaluationRow& row, double value, const Interval& interval) {
    const bool known = std::isfinite(interval.low);
    const std::string name = row.set + (row.recurrence ? fmt::format(", K = {}", *row.recurrence) : "");
    curves_[key][name].push_back(
        {row.step, NAN, value, known ? interval.low : value, known ? interval.high : value});
  }

  std::vector<Panel> take() {
    const Panel kinds[] = {{"loss", "Loss", "nats a token", false, {}},
                           {"bits-per-byte", "Bits per byte", "", false, {}},
                           {"accuracy", "Accuracy", "", false, {}},
                           {"accuracy-norm", "Accuracy", "by length", false, {}}};
    std::vector<Panel> panels;
    for (const Panel& kind : kinds) {
      if (curves_[kind.key].empty()) continue;
      panels.push_back(kind);
      for (auto& [name, points] : curves_[kind.key]) {
        std::stable_sort(points.begin(), points.end(), [](auto& a, auto& b) { return a.step < b.step; });
        const int color = int(panels.back().curves.size());
        panels.back().curves.push_back({name, 0, color, Curve::Kind::measured, std::move(points)});
      }
    }
    return panels;
  }

 private:
  std::map<std::string, std::map<std::string, std::vector<CurvePoint>>> curves_;
};

}  // namespace

std::vector<EvaluationRow> evaluate(const EvaluationOptions& o, const Warn& warn, const Terminal& progress) {
  Evaluation evaluation(o, progress);
  const std::vector<ModelSource> sources = sources_of(o, warn);
  for (const ModelSource& source : sources) evaluation.add(source);
  return evaluation.take();
}

std::string table_of(const std::vector<EvaluationRow>& rows) {
  std::string out, checkpoint;
  for (const EvaluationRow& row : rows) {
    if (row.checkpoint != checkpoint) out += row.checkpoint + "\n";
    checkpoint = row.checkpoint;
    out +=
        fmt::format("  {}{}: {}\n", row.set, row.recurrence ? fmt::format(", K = {}", *row.recurrence) : "",
                    std::visit([](const auto& s) { return words_of(s); }, row.score));
  }
  return out;
}

nlohmann::ordered_json json_of(const std::vector<EvaluationRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const EvaluationRow& row : rows) {
    nlohmann::ordered_json json{{"checkpoint", row.checkpoint}, {"step", row.step}, {"set", row.set}};
    if (row.recurrence) json["recurrence"] = *row.recurrence;
    std::visit([&](const auto& s) { add_numbers(json, s); }, row.score);
    list.push_back(std::move(json));
  }
  return {{"results", std::move(list)}};
}

std::vector<Panel> panels_of(const std::vector<EvaluationRow>& rows) {
  CurvesOfRows curves;
  for (const EvaluationRow& row : rows) {
    if (const auto* s = std::get_if<TextScore>(&row.score)) {
      curves.add("loss", row, s->loss, s->loss_interval);
      curves.add("bits-per-byte", row, s->bits_per_byte, s->bits_interval);
    } else {
      const auto& c = std::get<ChoiceScore>(row.score);
      curves.add("accuracy", row, c.accuracy, c.accuracy_interval);
      curves.add("accuracy-norm", row, c.accuracy_norm, c.norm_interval);
    }
  }
  return curves.take();
}

}  // namespace genesis
