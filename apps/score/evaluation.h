// genesis_eval: checkpoints scored on texts, data sets and questions, at each number of recurrent steps.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/report/curves.h"
#include "apps/score/choices.h"
#include "apps/score/text_score.h"
#include "io/checkpoint.h"
#include "io/progress.h"

namespace genesis {

struct EvaluationOptions {
  std::vector<std::string> models;  // checkpoints' folders, or runs'
  bool all = false;                 // of a run all its checkpoints, else the latest
  // What to score; nothing of all three: the validation data of the run's config.
  std::vector<std::string> texts, data, choices;
  std::string separator, field = "text", tokenizer;
  std::vector<int64_t> recurrence;  // empty: as trained
  int64_t context = 0;              // tokens that the model sees at a time; 0: as trained
  int64_t overlap = -1;             // of them, of a later window, context alone; -1: as the run's validation
  int64_t most_tokens = 0;          // of each text or data set; 0: all
};

struct EvaluationRow {
  std::string checkpoint;  // its folder
  int64_t step = 0;
  std::optional<int64_t> recurrence;  // none: a dense model
  std::string set;                    // the text, data set or questions
  std::variant<TextScore, ChoiceScore> score;
};

// All rows: by checkpoint, then set, then recurrence. Throws Error for what cannot be read.
std::vector<EvaluationRow> evaluate(const EvaluationOptions& options, const Warn& warn,
                                    const Terminal& progress);

std::string table_of(const std::vector<EvaluationRow>& rows);
nlohmann::ordered_json json_of(const std::vector<EvaluationRow>& rows);
// Loss, bits-per-byte and accuracy over steps, with their intervals.
std::vector<Panel> panels_of(const std::vector<EvaluationRow>& rows);

}  // namespace genesis
