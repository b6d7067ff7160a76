// The documents of one text file, block by block: see corpus.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "io/byte_source.h"
#include "io/corpus.h"

namespace genesis {

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  virtual std::optional<TextBlock> next() = 0;
  virtual int64_t consumed() const = 0;  // bytes of the file itself
};

// Both `options` and `findings` outlive the reader.
std::unique_ptr<DocumentReader> open_documents(const std::string& path, const CorpusOptions& options,
                                               CorpusFindings& findings);

}  // namespace genesis
