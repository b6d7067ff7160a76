// A run's metrics.jsonl (io/run_log.h) read back, once or again and again while the run goes on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/run_log.h"

namespace genesis {

struct RunMetrics {
  std::vector<StepRecord> steps;  // eta_seconds is not in the file: 0
  std::vector<EvalRecord> evaluations;
  // Lines that hold no record, and the first of them: a disk that was full leaves some.
  int64_t passed_over = 0;
  std::string first_passed_over;  // "metrics.jsonl:17: ..."
};

class MetricsReader {
 public:
  explicit MetricsReader(std::string path) : path_(std::move(path)) {}

  // Reads what was added since the last call; all of it again where the file was cut, as a resumed run does.
  // A last line without its end is being written and is left for the next call. Without the file there are no
  // records. Returns whether the records have changed. Throws Error for a file that cannot be read.
  bool update();
  const RunMetrics& metrics() const { return metrics_; }

 private:
  void add(std::string_view line);

  std::string path_;
  RunMetrics metrics_;
  int64_t read_ = 0;       // bytes of whole lines
  int64_t lines_ = 0;      // that those bytes are
  std::string last_line_;  // the last of them with its end, to see that the file still is the one before
};

}  // namespace genesis
