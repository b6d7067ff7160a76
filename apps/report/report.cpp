#include "apps/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "apps/page/page.h"
#include "apps/report/curves.h"
#include "apps/report/svg.h"
#include "io/config/table.h"
#include "io/format.h"
#include "kernels/common/error.h"
#include "model/parameters.h"

namespace genesis {
namespace {

using Json = nlohmann::ordered_json;

// Points of a curve: more than a screen has columns, to zoom into; and what a picture can show.
constexpr size_t kPagePoints = 4000, kPicturePoints = 700;
constexpr const char* kUnknown = "–";

std::vector<Panel> panels_of(const std::vector<RunFolder>& runs, const std::vector<std::string>& keys,
                             size_t most_points) {
  std::vector<const RunMetrics*> metrics;
  for (const RunFolder& run : runs) metrics.push_back(&run.metrics);
  std::vector<Panel> panels = genesis::panels_of(metrics, most_points);
  std::erase_if(panels, [&](const Panel& p) {
    return !keys.empty() && std::find(keys.begin(), keys.end(), p.key) == keys.end();
  });
  return panels;
}

double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_of(const RunFolder& run, const std::function<double(const StepRecord&)>& value) {
  std::vector<double> values;
  for (const StepRecord& r : run.metrics.steps) {
    if (const double x = value(r); std::isfinite(x)) values.push_back(x);
  }
  return median(std::move(values));
}

std::string parameters_of(const RunFolder& run) {
  return run.config ? format_count(double(parameter_count(run.config->model))) : kUnknown;
}

std::string shape_of(const RunFolder& run) {
  if (!run.config) return kUnknown;
  const auto& m = run.config->model;
  const auto& r = m.recurrence;
  const std::string layers =
      r.core == 0 ? fmt::format("{} layers", m.layers)
                  : fmt::format("layers {} + {} x {} + {}", r.prelude, r.steps, r.core, r.coda);
  return fmt::format("{}, width {}, vocabulary {}", layers, m.hidden_size, m.vocab_size);
}

std::string steps_of(const RunFolder& run) {
  if (run.metrics.steps.empty()) return "none";
  const int64_t done = run.metrics.steps.back().step;
  return run.config ? fmt::format("{} of {}", done, run.config->train.steps) : std::to_string(done);
}

std::string tokens_of(const RunFolder& run) {
  return run.metrics.steps.empty() ? kUnknown : format_count(double(run.metrics.steps.back().tokens));
}

// Single steps are noisy: the mean of the last hundredth of them, twenty at least.
std::string last_loss_of(const RunFolder& run) {
  const auto& steps = run.metrics.steps;
  const size_t most = std::max<size_t>(20, steps.size() / 100);
  double sum = 0;
  size_t count = 0;
  for (size_t i = steps.size() - std::min(steps.size(), most); i < steps.size(); ++i) {
    if (std::isfinite(steps[i].loss)) sum += steps[i].loss, ++count;
  }
  return count == 0 ? kUnknown : fmt::format("{:.4f} (mean of {} steps)", sum / double(count), count);
}

std::string best_validation_of(const RunFolder& run) {
  const EvalRecord* best = nullptr;
  for (const EvalRecord& r : run.metrics.evaluations) {
    if (std::isfinite(r.loss) && (best == nullptr || r.loss < best->loss)) best = &r;
  }
  if (best == nullptr) return kUnknown;
  return fmt::format("{:.4f}{}{} at step {}", best->loss,
                     best->bits_per_byte ? fmt::format(", {:.4f} bits per byte,", *best->bits_per_byte) : "",
                     best->recurrence ? fmt::format(" with K = {}", *best->recurrence) : "", best->step);
}

std::string speed_of(const RunFolder& run) {
  const double speed = median_of(run, [](const StepRecord& r) { return r.tokens_per_second; });
  const double mfu = median_of(run, [](const StepRecord& r) { return r.mfu.value_or(NAN); });
  if (!std::isfinite(speed)) return kUnknown;
  return format_count(speed) + (std::isfinite(mfu) ? fmt::format(", MFU {:.1f}%", 100 * mfu) : "");
}

std::string memory_of(const RunFolder& run) {
  int64_t most = 0;
  for (const StepRecord& r : run.metrics.steps) most = std::max(most, r.memory_bytes);
  return most == 0 ? kUnknown : format_bytes(double(most));
}

std::string skipped_of(const RunFolder& run) {
  const auto& steps = run.metrics.steps;
  return std::to_string(std::count_if(steps.begin(), steps.end(), [](const auto& r) { return r.skipped; }));
}

std::string saved_of(const RunFolder& run) {
  double bytes = 0;
  for (const CheckpointEntry& c : run.checkpoints) bytes += double(c.bytes);
  return run.checkpoints.empty() ? "none"
                                 : fmt::format("{}, {}", run.checkpoints.size(), format_bytes(bytes));
}

// The fields that differ between the runs that have a config.
std::vector<std::vector<std::string>> differences_of(const std::vector<RunFolder>& runs) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& section : config::table()) {
    for (const auto& field : section.fields) {
      std::vector<std::string> row{field.path};
      std::set<std::string> values;
      for (const RunFolder& run : runs) {
        row.push_back(run.config ? field.print(*run.config) : kUnknown);
        if (run.config) values.insert(row.back());
      }
      if (values.size() > 1) rows.push_back(std::move(row));
    }
  }
  return rows;
}

Json checkpoints_json(const RunFolder& run) {
  Json list = Json::array();
  for (const CheckpointEntry& c : run.checkpoints) {
    list.push_back({{"step", std::to_string(c.step)},
                    {"tokens", c.problem.empty() ? format_count(double(c.tokens)) : kUnknown},
                    {"size", format_bytes(double(c.bytes))},
                    {"problem", c.problem}});
  }
  return list;
}

}  // namespace

std::vector<std::string> names_of(const std::vector<RunFolder>& runs) {
  std::vector<std::string> names;
  for (const RunFolder& run : runs) {
    const auto same = [&](const RunFolder& other) { return other.name == run.name; };
    names.push_back(std::count_if(runs.begin(), runs.end(), same) > 1 ? run.path : run.name);
  }
  return names;
}

std::vector<std::vector<std::string>> facts_of(const std::vector<RunFolder>& runs) {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const char* label, auto value) {
    rows.push_back({label});
    for (const RunFolder& run : runs) rows.back().push_back(value(run));
  };
  row("Folder", [](const RunFolder& run) { return run.path; });
  row("Parameters", parameters_of);
  row("Model", shape_of);
  row("Steps", steps_of);
  row("Tokens", tokens_of);
  row("Training loss", last_loss_of);
  row("Best validation", best_validation_of);
  row("Tokens a second, median", speed_of);
  row("Memory, largest", memory_of);
  row("Skipped steps", skipped_of);
  row("Checkpoints", saved_of);
  return rows;
}

namespace {

// All that the page shows: apps/report/report.js reads it.
Json report_json(const std::vector<RunFolder>& runs, const std::vector<std::string>& curves) {
  Json list = Json::array();
  const std::vector<std::string> names = names_of(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    list.push_back({{"name", names[i]},
                    {"notes", runs[i].notes},
                    {"config", runs[i].config_text},
                    {"samples", Json::array()},
                    {"checkpoints", checkpoints_json(runs[i])}});
  }
  return {{"runs", std::move(list)},
          {"facts", facts_of(runs)},
          {"differences", differences_of(runs)},
          {"panels", json_of(panels_of(runs, curves, kPagePoints))}};
}

}  // namespace

std::string report_html(const std::vector<RunFolder>& runs, const ReportOptions& options) {
  const std::vector<Panel> panels = panels_of(runs, options.curves, kPicturePoints);
  return fill_page(page_files::report_html,
                   {{"title", escape_html(options.title)},
                    {"made", escape_html(options.made)},
                    {"svg", panels.empty() ? "" : svg_of(options.title, names_of(runs), panels)},
                    {"data", json_in_html(report_json(runs, options.curves))},
                    {"script", std::string(page_files::report_js)}});
}

std::string report_svg(const std::vector<RunFolder>& runs, const ReportOptions& options) {
  const std::vector<Panel> panels = panels_of(runs, options.curves, kPicturePoints);
  check(!panels.empty(),
        runs[0].path + ": metrics.jsonl holds nothing of these curves: there is nothing to draw yet");
  return svg_of(options.title, names_of(runs), panels);
}

}  // namespace genesis
