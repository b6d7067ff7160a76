#include "apps/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

namespace genesis {
namespace {

// Steps `count` at a time: their mean and range, at the middle one.
std::vector<CurvePoint> gathered(const std::vector<CurvePoint>& all, size_t count) {
  std::vector<CurvePoint> points;
  for (size_t begin = 0; begin < all.size(); begin += count) {
    const size_t end = std::min(all.size(), begin + count);
    CurvePoint point = all[(begin + end - 1) / 2];
    double sum = 0;
    for (size_t i = begin; i < end; ++i) {
      sum += all[i].value;
      point.low = std::min(point.low, all[i].low);
      point.high = std::max(point.high, all[i].high);
    }
    point.value = sum / double(end - begin);
    points.push_back(point);
  }
  return points;
}

using StepValue = std::optional<double> (*)(const StepRecord&);
using EvalValue = std::optional<double> (*)(const EvalRecord&);

std::vector<CurvePoint> points_of(const RunMetrics& run, StepValue value, size_t most) {
  std::vector<CurvePoint> points;
  for (const StepRecord& r : run.steps) {
    const auto y = value(r);
    if (y && std::isfinite(*y)) points.push_back({r.step, double(r.tokens), *y, *y, *y});
  }
  return gathered(points, std::max<size_t>(1, (points.size() + most - 1) / most));
}

// An evaluation knows its step alone; its tokens are those of the step's own record.
double tokens_at(const RunMetrics& run, int64_t step) {
  const auto it = std::lower_bound(run.steps.begin(), run.steps.end(), step,
                                   [](const StepRecord& r, int64_t s) { return r.step < s; });
  const bool found = it != run.steps.end() && it->step == step;
  return found ? double(it->tokens) : std::numeric_limits<double>::quiet_NaN();
}

// One curve for each number of recurrent steps; 0 stands for a dense model.
std::map<int64_t, std::vector<CurvePoint>> points_of(const RunMetrics& run, EvalValue value) {
  std::map<int64_t, std::vector<CurvePoint>> by_recurrence;
  for (const EvalRecord& r : run.evaluations) {
    const auto y = value(r);
    if (!y || !std::isfinite(*y)) continue;
    by_recurrence[r.recurrence.value_or(0)].push_back({r.step, tokens_at(run, r.step), *y, *y, *y});
  }
  return by_recurrence;
}

// The panels' curves as they come. With one run a color is a curve's, with several it is a run's.
class Panels {
 public:
  Panels(std::span<const RunMetrics* const> runs, size_t most) : runs_(runs), most_(most) {}

  void begin(Panel panel) { panels_.push_back(std::move(panel)); }
  void add_steps(const char* name, Curve::Kind kind, StepValue value) {
    for (size_t run = 0; run < runs_.size(); ++run) {
      add({name, run, 0, kind, points_of(*runs_[run], value, most_)});
    }
  }
  void add_evaluations(EvalValue value) {
    for (size_t run = 0; run < runs_.size(); ++run) {
      for (auto& [k, points] : points_of(*runs_[run], value)) {
        const std::string name = k == 0 ? "validation" : fmt::format("validation, K = {}", k);
        add({name, run, 0, Curve::Kind::measured, std::move(points)});
      }
    }
  }
  std::vector<Panel> take() { return std::move(panels_); }

 private:
  void add(Curve curve) {
    if (curve.points.empty()) return;
    std::vector<Curve>& curves = panels_.back().curves;
    curve.color = runs_.size() > 1 ? int(curve.run) : int(curves.size());
    curves.push_back(std::move(curve));
  }

  std::span<const RunMetrics* const> runs_;
  size_t most_;
  std::vector<Panel> panels_;
};

std::vector<Panel> all_panels(std::span<const RunMetrics* const> runs, size_t most_points) {
  using Step = const StepRecord&;
  using Eval = const EvalRecord&;
  using Value = std::optional<double>;
  using enum Curve::Kind;
  Panels panels(runs, most_points);
  panels.begin({"loss", "Loss", "nats a token", false, {}});
  panels.add_steps("training", noisy, [](Step r) -> Value { return r.loss; });
  panels.add_evaluations([](Eval r) -> Value { return r.loss; });
  panels.begin({"bits-per-byte", "Bits per byte", "of the validation text", false, {}});
  panels.add_evaluations([](Eval r) { return r.bits_per_byte; });
  panels.begin({"lr", "Learning rate", "", false, {}});
  panels.add_steps("learning rate", exact, [](Step r) -> Value { return r.lr; });
  panels.begin({"grad-norm", "Gradient norm", "before clipping", true, {}});
  panels.add_steps("gradient norm", noisy, [](Step r) -> Value { return r.grad_norm; });
  panels.begin({"throughput", "Throughput", "tokens/s", false, {}});
  panels.add_steps("tokens/s", noisy, [](Step r) -> Value { return r.tokens_per_second; });
  panels.begin({"mfu", "Model FLOP utilisation", "of the device's peak", false, {}});
  panels.add_steps("MFU", noisy, [](Step r) { return r.mfu; });
  panels.begin({"memory", "Memory", "GiB", false, {}});
  panels.add_steps("memory", exact, [](Step r) -> Value { return double(r.memory_bytes) / double(1 << 30); });
  return panels.take();
}

// Some four significant digits past what can be seen, and short in the file.
double rounded(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(x))) - 5);
  return std::round(x / unit) * unit;
}

}  // namespace

std::vector<std::string> panel_keys() {
  std::vector<std::string> keys;
  for (const Panel& panel : all_panels({}, 1)) keys.push_back(panel.key);
  return keys;
}

std::vector<Panel> panels_of(std::span<const RunMetrics* const> runs, size_t most_points) {
  std::vector<Panel> panels = all_panels(runs, most_points);
  std::erase_if(panels, [](const Panel& p) { return p.curves.empty(); });
  return panels;
}

nlohmann::ordered_json json_of(const std::vector<Panel>& panels) {
  constexpr const char* kind_names[] = {"noisy", "exact", "measured"};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Panel& panel : panels) {
    nlohmann::ordered_json curves = nlohmann::ordered_json::array();
    for (const Curve& c : panel.curves) {
      nlohmann::ordered_json curve{
          {"name", c.name}, {"run", c.run}, {"color", c.color}, {"kind", kind_names[size_t(c.kind)]}};
      const auto column = [&](const char* key, auto value) {
        nlohmann::ordered_json& numbers = curve[key] = nlohmann::ordered_json::array();
        for (const CurvePoint& p : c.points) numbers.push_back(value(p));
      };
      column("step", [](const CurvePoint& p) { return p.step; });
      column("tokens", [](const CurvePoint& p) { return p.tokens; });  // NaN is written as null
      column("value", [](const CurvePoint& p) { return rounded(p.value); });
      if (std::any_of(c.points.begin(), c.points.end(), [](const CurvePoint& p) { return p.low < p.high; })) {
        column("low", [](const CurvePoint& p) { return rounded(p.low); });
        column("high", [](const CurvePoint& p) { return rounded(p.high); });
      }
      curves.push_back(std::move(curve));
    }
    list.push_back({{"title", panel.title},
                    {"unit", panel.unit},
                    {"log", panel.log_scale},
                    {"curves", std::move(curves)}});
  }
  return list;
}

}  // namespace genesis
