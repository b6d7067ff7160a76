#include "apps/train/data.h"

#include <algorithm>
#include <utility>

#include "kernels/common/error.h"

namespace genesis {
namespace {

std::shared_ptr<const TokenDataset> open_dataset(const std::string& path, const Config& config,
                                                 const std::optional<Tokenizer>& tokenizer) {
  auto data = std::make_shared<const TokenDataset>(path);
  if (tokenizer) data->check_tokenizer(*tokenizer);
  data->check_vocabulary(config.model.vocab_size);
  return data;
}

// Refuses a dataset of `field` that holds what one of `among` holds.
void check_differs(const char* field, const DatasetIdentity& of, const std::vector<DatasetIdentity>& among,
                   const char* advice) {
  const auto twin =
      std::find_if(among.begin(), among.end(), [&](const auto& other) { return same_content(of, other); });
  if (twin == among.end()) return;
  throw Error(std::string(field) + ": " + of.path + " holds the same tokens as " + twin->path + advice);
}

// Returns the identities of what is trained on.
std::vector<DatasetIdentity> check_distinct(const RunData& run) {
  std::vector<DatasetIdentity> trained, validated;
  for (const WeightedDataset& d : run.train) {
    DatasetIdentity identity = d.data->identity();
    check_differs("data.train", identity, trained, "; name one of them, with a larger weight");
    trained.push_back(std::move(identity));
  }
  for (const auto& data : run.validation) {
    DatasetIdentity identity = data->identity();
    check_differs("data.validation", identity, trained, ", which is trained on");
    check_differs("data.validation", identity, validated, "; name one of them");
    validated.push_back(std::move(identity));
  }
  return trained;
}

}  // namespace

RunData open_data(const Config& config) {
  RunData run;
  if (!config.data.tokenizer.empty()) {
    run.tokenizer.emplace(config.data.tokenizer);
    check(run.tokenizer->vocab_size() <= config.model.vocab_size,
          "model.vocab_size is " + std::to_string(config.model.vocab_size) + ", but " +
              config.data.tokenizer + " has " + std::to_string(run.tokenizer->vocab_size()) +
              " pieces: raise model.vocab_size");
  }
  for (const auto& d : config.data.train) {
    run.train.push_back({open_dataset(d.path, config, run.tokenizer), d.weight});
  }
  for (const auto& path : config.data.validation) {
    run.validation.push_back(open_dataset(path, config, run.tokenizer));
  }
  run.identities = check_distinct(run);
  return run;
}

}  // namespace genesis
