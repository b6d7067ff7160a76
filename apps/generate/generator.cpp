#include "apps/generate/generator.h"

#include <numeric>

#include "apps/device.h"
#include "apps/train/checkpoints.h"
#include "kernels/common/error.h"
#include "model/decoder.h"

namespace genesis {
namespace {

// Prompts are read this many tokens at a time: enough for matrix products, little enough to waste none of a
// short prompt.
constexpr int64_t kPrefill = 64;

}  // namespace

Generator::Generator(const Config& config, const std::string& checkpoint, int64_t max_tokens,
                     int64_t recurrence)
    : V_(config.model.vocab_size),
      max_tokens_(max_tokens),
      device_(open_device(config.device)),
      storage_(*device_) {
  const DType dtype = compute_type(config.device);
  for (int64_t n : {kPrefill, int64_t(1)}) {
    if (n > max_tokens) continue;
    steps_.push_back(
        {n, Executable(build_generation_graph(config.model, n, max_tokens, dtype, recurrence), storage_)});
  }
  load_parameters(checkpoint, storage_);
}

std::span<const float> Generator::append(std::span<const int32_t> tokens) {
  require(!tokens.empty(), "something to append");
  check(length_ + int64_t(tokens.size()) <= max_tokens_,
        "the sequence has grown to " + std::to_string(length_ + int64_t(tokens.size())) +
            " tokens, and the cache holds " + std::to_string(max_tokens_));
  while (!tokens.empty()) {
    for (Step& step : steps_) {
      if (int64_t(tokens.size()) < step.n) continue;
      run(step, tokens.first(size_t(step.n)));
      tokens = tokens.subspan(size_t(step.n));
      break;
    }
  }
  return std::span<const float>(logits_).last(size_t(V_));
}

void Generator::run(Step& step, std::span<const int32_t> tokens) {
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), int32_t(length_));
  const int32_t first = int32_t(length_);
  storage_.write(for_count(kTokens, step.n), tokens.data(), tokens.size_bytes());
  storage_.write(for_count(kPositions, step.n), positions.data(), positions.size() * sizeof(int32_t));
  storage_.write(kFirst, &first, sizeof first);
  step.executable.run(Phase::micro);
  logits_.resize(size_t(step.n * V_));
  storage_.read(for_count(kLogits, step.n), logits_.data(), logits_.size() * sizeof(float));
  length_ += step.n;
}

}  // namespace genesis
