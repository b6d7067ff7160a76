#include "apps/train/data.h"

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
  return run;
}

}  // namespace genesis
