#include "apps/train/resume.h"

#include <fmt/format.h>

#include "apps/train/schedule_change.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

// A run goes on with the tokenizer that it began with.
void check_tokenizer(const Config& config, const std::optional<Tokenizer>& tokenizer,
                     const TrainState& state) {
  const std::string& held = state.tokenizer_hash;
  if (!tokenizer || held.empty() || tokenizer->hash() == held) return;
  throw Error(fmt::format(
      "{} was trained with the tokenizer of hash {}, but {} has hash {}: choose another folder for this "
      "run, or go on with that one's tokenizer and data",
      config.run_dir, held, config.data.tokenizer, tokenizer->hash()));
}

}  // namespace

std::optional<std::string> checkpoint_to_go_on_from(const Config& config, const RunData& data,
                                                    const Warn& say) {
  const auto checkpoint = latest_checkpoint(config.run_dir, say);
  if (!checkpoint) return checkpoint;
  const TrainState state = read_checkpoint_state(*checkpoint);
  const std::string other = config_differences(parse_config(state.config, *checkpoint + "'s config"), config);
  check(other.empty(),
        *checkpoint + " is of another run: " + other +
            ". Choose another folder for this run, or go on with the config that it began with");
  check_tokenizer(config, data.tokenizer, state);
  schedule_begin(config, state, [](const std::string&) {});
  return checkpoint;
}

}  // namespace genesis
