#include "apps/open_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "io/run_dir.h"
#include "kernels/common/error.h"
#include "model/executions.h"

namespace genesis {

ModelSource open_model(const std::string& path, const Warn& warn) {
  ModelSource model;
  model.checkpoint = find_checkpoint(path, warn);
  model.state = read_checkpoint_state(model.checkpoint);
  model.config = parse_config(model.state.config, model.checkpoint + ": config");
  return model;
}

Tokenizer open_tokenizer(const ModelSource& model, const std::string& path) {
  const std::string of_run = kept_tokenizer(model.checkpoint + "/../..");
  const std::string kept = std::filesystem::exists(of_run) ? of_run : model.checkpoint + "/tokenizer.model";
  check(!path.empty() || std::filesystem::exists(kept),
        fmt::format("neither the run ({}) nor the checkpoint ({}) has a tokenizer of its own: name one with "
                    "--tokenizer",
                    of_run, kept));
  Tokenizer tokenizer(path.empty() ? kept : path);
  const std::string& trained_with = model.state.tokenizer_hash;
  check(trained_with.empty() || tokenizer.hash() == trained_with,
        fmt::format(
            "{} has hash {}, but the model was trained with the tokenizer of hash {}: name that one with "
            "--tokenizer",
            tokenizer.path().string(), tokenizer.hash(), trained_with));
  return tokenizer;
}

int64_t recurrence_of(const Config::Model& model, int64_t asked) {
  check(asked == 0 || model.recurrence.core > 0,
        "--recurrence is for recurrent models, and this one is dense");
  return asked > 0 ? asked : trained_recurrence(model);
}

}  // namespace genesis
