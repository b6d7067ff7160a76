// A run with a tokenizer of its own, trained for a moment on a text, for tests that serve it.
#pragma once

#include "apps/serve/engine.h"
#include "apps/train/trainer.h"
#include "io/dataset.h"
#include "io/run_dir.h"
#include "io/tokenizer.h"
#include "tests/apps/tiny_run.h"

namespace genesis {

class ServedRun {
 public:
  explicit ServedRun(const std::vector<std::string>& overrides = {}) {
    const std::string text =
        "In the beginning God created the heaven and the earth. And the earth was without form, "
        "and void; and darkness was upon the face of the deep. ";
    bool given = false;
    TokenizerOptions options;
    options.vocab_size = 300;
    const std::string bytes = Tokenizer::train(options, [&]() -> std::optional<std::string> {
      if (given) return std::nullopt;
      given = true;
      return text;
    });
    const Tokenizer tokenizer(folder.put("tokenizer.model", bytes));
    DatasetWriter writer(folder.file("data"), tokenizer.vocab_size(), tokenizer.eod(), tokenizer.hash());
    for (int i = 0; i < 20; ++i) {
      writer.append(tokenizer.encode(text), int64_t(text.size()));
      writer.end_document();
    }
    writer.finish();
    const Config config = parse_config(
        "run_dir: " + folder.file("run") + "\nmodel: {vocab_size: " + std::to_string(tokenizer.vocab_size()) +
            ", hidden_size: 64, layers: 3, heads: 2, kv_heads: 1, head_size: 32, ffn_size: 96, "
            "tie_embeddings: true,\n"
            "        recurrence: {prelude: 1, core: 1, coda: 1, steps: 2}}\n"
            "data: {train: " +
            folder.file("data") + ", tokenizer: " + folder.file("tokenizer.model") +
            ", sequence_length: 64}\n"
            "train: {steps: 20, batch_size: 4, micro_batch: 4}\noptim: {lr: 1e-2}\n"
            "schedule: {kind: cosine, warmup_steps: 2, min_lr: 1e-3}\ncheckpoint: {every: 10}\n",
        "served.yaml", overrides);
    std::ostringstream output;
    Trainer(
        config,
        {.out = &output, .interactive = false, .columns = [] { return 80; }, .seconds = [] { return 0.0; }})
        .run();
    run = folder.file("run");
  }

  TempFolder folder;
  std::string run;
};

}  // namespace genesis
