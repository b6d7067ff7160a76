// What a checkpoint says of its model, for programs that use one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "io/checkpoint.h"
#include "io/config.h"
#include "io/tokenizer.h"

namespace genesis {

struct ModelSource {
  std::string checkpoint;  // its folder
  TrainState state;
  Config config;
};

// `path`: a checkpoint's folder, or a run's for its latest. Throws Error where there is none that can be read.
ModelSource open_model(const std::string& path, const Warn& warn);

// The run's own tokenizer or, of a checkpoint that was copied alone, the checkpoint's; or the one at `path` unless that
// is empty. Throws Error where there is none, or it is another than the model was trained with.
Tokenizer open_tokenizer(const ModelSource& model, const std::string& path);

// The number of recurrent steps that is asked for, 0: as trained. Throws Error for a dense model that is asked
// for any.
int64_t recurrence_of(const Config::Model& model, int64_t asked);

}  // namespace genesis
