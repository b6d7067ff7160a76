// The table that a run writes to the console: a line a step, as wide as the console allows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/run_log.h"

namespace genesis {

class ConsoleTable {
 public:
  // Lines for a console of `columns` characters, none of them longer (but for a console of fewer than 23): what
  // matters least is left out, and what does not stand in a column goes to a line of its own. 0: as wide as need
  // be. The header comes first, again every 40 lines, and where other columns are left out than before.
  std::vector<std::string> lines(const StepRecord& record, int columns);
  static std::vector<std::string> lines(const EvalRecord& record, int columns);
  // A sentence, broken between words; one longer than the console, a path perhaps, stays whole.
  static std::vector<std::string> lines(const std::string& message, int columns);

 private:
  std::vector<size_t> shown_;  // of all columns
  int to_header_ = 0;          // lines
};

}  // namespace genesis
