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
  std::vector<DatasetIdentity> identities;  // of what is trained on
};

// Throws Error, naming the file, for what is missing, damaged, made by another tokenizer, or holds ids that
// the model does not have, and for data that is there twice, by whatever names: validated on and trained on too.
RunData open_data(const Config& config);

}  // namespace genesis
