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

std::string in_words(const DatasetIdentity& d) {
  return fmt::format("{} tokens in {} documents (content hash {})", d.tokens, d.documents, d.hash);
}

// Its advice, where what was trained on as data.train[i] is there in another place.
std::string other_place(const RunData& data, const DatasetIdentity& held) {
  for (size_t i = 0; i < data.identities.size(); ++i) {
    if (same_content(data.identities[i], held)) {
      return fmt::format("What it was trained on there is data.train[{}] now: give them in their old order. ",
                         i);
    }
  }
  return "";
}

// A run goes on with the tokens that it began with, wherever they lie now.
void check_data(const Config& config, const Config& before, const RunData& data, const TrainState& state,
                const Warn& say) {
  const bool allow = config.data.changed == Config::DataChanged::allow;
  for (size_t i = 0; i < data.identities.size(); ++i) {
    const DatasetIdentity& now = data.identities[i];
    const std::string& path = before.data.train[i].path;
    if (state.data.empty()) {  // an older checkpoint, which knows no more than paths
      check(now.path == path || allow,
            fmt::format(
                "data.train[{}] was {}, is {}, and the checkpoint is of a version that did not note what "
                "it held: name the old path, choose another folder for this run, or set data.changed: "
                "allow if it holds the same",
                i, path, now.path));
      continue;
    }
    const DatasetIdentity& held = state.data[i];
    if (same_content(now, held)) {
      if (now.path != held.path)
        say(fmt::format("{} holds what {} held: the same data", now.path, held.path));
      continue;
    }
    const std::string found =
        fmt::format("data.train[{}], {}, holds {}, and {} held {} when this run was trained on it", i,
                    now.path, in_words(now), held.path, in_words(held));
    check(allow,
          fmt::format("{}. {}Name in data.train where the old data lies now, choose another folder for this "
                      "run, or set data.changed: allow to go on with what is there",
                      found, other_place(data, held)));
    say(found + ": going on with what is there, for data.changed is allow");
  }
}

// What is computed with decides the bits. A change that was asked for is told; one that the machine would make is an
// Error.
void check_dtype(const Config& config, const Config& before, DType dtype, const TrainState& state,
                 const Warn& say) {
  std::string held = state.dtype;
  if (held.empty() && before.device.dtype != Config::Precision::automatic)
    held = name_of(before.device.dtype);
  if (held.empty() || held == name_of(dtype)) return;
  check(config.device.dtype != Config::Precision::automatic,
        fmt::format(
            "{} was computed in {}, and device.dtype: auto is {} on this machine: set device.dtype to {} to "
            "go on as before, or to {} to change it",
            config.run_dir, held, name_of(dtype), held, name_of(dtype)));
  say(fmt::format("computed in {} from here on, and in {} before", name_of(dtype), held));
}

}  // namespace

std::optional<std::string> checkpoint_to_go_on_from(const Config& config, const RunData& data, DType dtype,
                                                    const Warn& say) {
  const auto checkpoint = latest_checkpoint(config.run_dir, say);
  if (!checkpoint) return checkpoint;
  const TrainState state = read_checkpoint_state(*checkpoint);
  const Config before = parse_config(state.config, *checkpoint + "'s config");
  const std::string other = config_differences(before, config);
  check(other.empty(),
        *checkpoint + " is of another run: " + other +
            ". Choose another folder for this run, or go on with the config that it began with");
  check(state.data.empty() || state.data.size() == before.data.train.size(),
        fmt::format("{}: its data are {} and its config names {}", *checkpoint, state.data.size(),
                    before.data.train.size()));
  check_tokenizer(config, data.tokenizer, state);
  check_data(config, before, data, state, say);
  check_dtype(config, before, dtype, state, say);
  schedule_begin(config, state, [](const std::string&) {});
  return checkpoint;
}

}  // namespace genesis
