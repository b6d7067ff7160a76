// What a run goes on from, and what it can't go on with.
#pragma once

#include <optional>
#include <string>

#include "apps/train/data.h"
#include "io/checkpoint.h"
#include "io/config.h"

namespace genesis {

// The latest checkpoint of the run's folder; nothing where the run begins. Reads, and changes nothing. Throws Error
// where the folder's checkpoints can't be read, or are not of this run: trained with another tokenizer, or with a
// schedule that can't be gone on with. `say` is told what was passed over.
std::optional<std::string> checkpoint_to_go_on_from(const Config& config, const RunData& data,
                                                    const Warn& say);

}  // namespace genesis
