// metrics.jsonl of a run: a record a line, in order of their steps.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace genesis {

class MetricsFile {
 public:
  // Opens it to go on after `done_steps`: records of later steps, of an earlier try, are cut off, and so is a last
  // line that was not finished. A line that is no record (what a power cut or another program left) is dropped, once
  // a copy of the whole file is beside it; `say` is told each such line and the copy. Throws Error for what is not a
  // regular file or cannot be read and written.
  MetricsFile(std::string path, int64_t done_steps, const std::function<void(const std::string&)>& say);

  // Appends a line and flushes it; what is not finite becomes null. Throws Error when the disk does not take it.
  void write(const nlohmann::ordered_json& record);

  // The numbers of recurrent steps (none: a dense model) of the evaluations of step `done_steps` that it held.
  const std::vector<std::optional<int64_t>>& evaluated() const { return evaluated_; }

 private:
  std::string path_;
  std::ofstream file_;
  std::vector<std::optional<int64_t>> evaluated_;
};

}  // namespace genesis
