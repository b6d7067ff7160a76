// genesis_eval CHECKPOINT...: how well models predict texts, and answer questions.
#include <iostream>

#include "apps/integer_in.h"
#include "apps/main.h"
#include "apps/report/svg.h"
#include "apps/score/evaluation.h"
#include "io/file.h"
#include "kernels/common/error.h"

using namespace genesis;

namespace {

struct Options {
  EvaluationOptions evaluation;
  std::string json, svg;
};

void run(const Options& o) {
  const auto warn = [](const std::string& line) { std::cerr << "genesis_eval: " << line << "\n"; };
  const std::vector<EvaluationRow> rows = evaluate(o.evaluation, warn, Terminal::standard_error());
  if (o.json == "-") {
    std::cout << json_of(rows).dump(2) << "\n";
  } else {
    std::cout << table_of(rows);
    if (!o.json.empty()) replace_text_file(o.json, json_of(rows).dump(2) + "\n");
  }
  if (!o.svg.empty()) replace_text_file(o.svg, svg_of("genesis_eval", {""}, panels_of(rows)));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Scores models: cross-entropy and bits-per-byte on text, accuracy on multiple-choice questions.",
      "genesis_eval"};
  Options o;
  EvaluationOptions& e = o.evaluation;
  app.add_option("models", e.models, "checkpoints' folders, or runs' folders (their latest checkpoint)")
      ->required();
  app.add_flag("--all", e.all, "of a run's folder all its checkpoints");
  app.add_option("--text", e.texts, "text files: plain, JSONL, or either compressed");
  app.add_option("--data", e.data,
                 "data sets, without .bin; nothing named at all: the run's own validation data");
  app.add_option("--choices", e.choices,
                 "JSONL of questions: context, endings, label; HellaSwag's files as they are");
  app.add_option("--recurrence", e.recurrence, "recurrent steps, one or more; as trained if nothing is named")
      ->transform(integer_in(1, 1024));
  app.add_option("--context", e.context, "tokens that the model sees at a time; 0: as trained")
      ->transform(integer_in(0, int64_t(1) << 24));
  app.add_option("--overlap", e.overlap,
                 "of them, those of a later window that are only context; -1: as in training")
      ->transform(integer_in(-1, int64_t(1) << 24))
      ->capture_default_str();
  app.add_option("--tokens", e.most_tokens, "stop after so many of each text or data set; 0: all")
      ->transform(integer_in(0));
  app.add_option("--separator", e.separator, "between the documents of a plain text file");
  app.add_option("--field", e.field, "of a JSONL line: its text")->capture_default_str();
  app.add_option("--tokenizer", e.tokenizer, "the tokenizer, where the run's folder has none");
  app.add_option("--json", o.json, "write the results as JSON to this file; -: to standard output");
  app.add_option("--svg", o.svg, "draw the results over the checkpoints' steps");
  return run_main(app, argc, argv, [&] { run(o); });
}
