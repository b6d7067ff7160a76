// What a run goes on from, and what it can't go on with.
#pragma once

#include <optional>
#include <string>

#include "apps/train/data.h"
#include "io/checkpoint.h"
#include "io/config.h"
#include "kernels/common/dtype.h"

namespace genesis {

// The latest checkpoint of the run's folder; nothing where the run begins. Reads, and changes nothing. Throws Error
// where the folder's checkpoints can't be read, or are not of this run: trained with another tokenizer, on other data
// (unless data.changed allows it), in another type than the machine's choice, or with a schedule that can't be gone
// on with. `say` is told what was passed over, and what has changed.
std::optional<std::string> checkpoint_to_go_on_from(const Config& config, const RunData& data, DType dtype,
                                                    const Warn& say);

}  // namespace genesis
