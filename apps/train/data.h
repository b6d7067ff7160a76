// The data a config names, opened and checked against the model.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "io/config.h"
#include "io/dataset.h"
#include "io/loader.h"
#include "io/tokenizer.h"

namespace genesis {

struct RunData {
  std::optional<Tokenizer> tokenizer;
  std::vector<WeightedDataset> train;
  std::vector<std::shared_ptr<const TokenDataset>> validation;
};

// Throws Error, naming the file, for what is missing, damaged, made by another tokenizer, or holds ids that
// the model does not have.
RunData open_data(const Config& config);

}  // namespace genesis
