// Cross-entropy and bits-per-byte of a model on text: each document on its own, from the end-of-document token
// before it to the one at its end.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/score/scorer.h"
#include "apps/score/statistics.h"
#include "io/corpus.h"
#include "io/dataset.h"
#include "io/tokenizer.h"

namespace genesis {

// One document after another.
class DocumentSource {
 public:
  struct Document {
    std::vector<int32_t> tokens;  // the end-of-document token, the text, the end-of-document token
    std::vector<int32_t> bytes;   // of text that each stands for
  };
  virtual ~DocumentSource() = default;
  virtual std::optional<Document> next() = 0;
};
// Text files; a document is held whole. Data sets; without the tokenizer a token counts the data set's mean bytes.
std::unique_ptr<DocumentSource> documents_of(const CorpusOptions& corpus, const Tokenizer& tokenizer);
std::unique_ptr<DocumentSource> documents_of(const TokenDataset& data, const Tokenizer* tokenizer);

struct WindowOptions {
  int64_t T = 0;            // tokens that the model sees at a time
  int64_t overlap = 0;      // of a later window: tokens that are only context; in [0, T)
  int64_t most_tokens = 0;  // stop after so many are scored; 0: all
};

struct TextScore {
  int64_t documents = 0, tokens = 0, bytes = 0;
  double loss = 0, bits_per_byte = 0;  // nats a token; bits a byte of text
  Interval loss_interval, bits_interval;
  // What the intervals' resamplings are of. Of fewer than 10 documents it is their windows, which says less: one
  // document's parts are alike.
  bool over_windows = false;
  int64_t units = 0;
};

// With each scorer, on the same documents; `done` is told how many tokens more are scored. Throws Error when there
// is no text.
std::vector<TextScore> score_text(DocumentSource& source, const WindowOptions& options,
                                  std::vector<Scorer*> scorers, const std::function<void(int64_t)>& done);

}  // namespace genesis
