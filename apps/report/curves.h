// A run's records as curves, several runs in one panel: what the report, its picture and the server's page draw.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "io/run_metrics.h"

namespace genesis {

struct CurvePoint {
  int64_t step = 0;
  double tokens = 0;         // seen by then; NaN: not known
  double value = 0;          // the mean of the steps that the point stands for
  double low = 0, high = 0;  // and their range
};

struct Curve {
  enum class Kind {
    noisy,     // at every step, best seen smoothed
    exact,     // at every step
    measured,  // now and then: each point is shown
  };
  std::string name;  // "training", "validation, K = 2"
  size_t run = 0;    // which of the runs
  int color = 0;     // of the palette that the pictures share
  Kind kind = Kind::noisy;
  std::vector<CurvePoint> points;
};

struct Panel {
  std::string key;  // "grad-norm"
  std::string title, unit;
  bool log_scale = false;  // what it is best seen on
  std::vector<Curve> curves;
};

// The panels' keys, in their order.
std::vector<std::string> panel_keys();

// Values that are not finite make no point. A curve of more than `most_points` steps has points that stand for
// as many steps each as it takes. Panels without a point are left out.
std::vector<Panel> panels_of(std::span<const RunMetrics* const> runs, size_t most_points);

// {"title", "unit", "log", "curves": [{"name", "run", "color", "kind", "step": [...], "tokens": [...],
// "value": [...], "low": [...], "high": [...]}]}; low and high are there where points stand for several steps,
// tokens that are not known are null.
nlohmann::ordered_json json_of(const std::vector<Panel>& panels);

}  // namespace genesis
