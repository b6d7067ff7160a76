// From text to token datasets, and back.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "io/corpus.h"
#include "io/dataset.h"
#include "io/tokenizer.h"

namespace genesis {

// Told how many more bytes of the corpus's files have been read.
using OnRead = std::function<void(int64_t)>;

// Bytes of text in the corpus: what Corpus's held_out_from counts.
int64_t count_text(Corpus& corpus, const OnRead& on_read);

// Writes the documents that are not held out to `main`, those that are to `held_out` (which may be null where
// there are none). Neither is finished. All cores encode; the result does not depend on their number. A
// document is encoded in parts, cut where the tokenizer says that no piece is (Tokenizer::can_cut), so that
// the result is that of the whole; only in a run of over kMaxBlock bytes without such a place is a cut made
// inside a piece.
void encode_corpus(Corpus& corpus, const Tokenizer& tokenizer, DatasetWriter& main, DatasetWriter* held_out,
                   const OnRead& on_read);

// Writes the text of all documents, `separator` between two. Throws Error if the stream does not take it.
void decode_dataset(const TokenDataset& data, const Tokenizer& tokenizer, const std::string& separator,
                    std::ostream& out, const std::function<void(int64_t tokens)>& on_decoded);

}  // namespace genesis
