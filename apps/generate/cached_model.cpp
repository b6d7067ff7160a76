#include "apps/generate/cached_model.h"

#include <algorithm>
#include <cstring>

#include "apps/device.h"
#include "apps/train/checkpoints.h"
#include "kernels/common/error.h"
#include "kernels/common/random.h"

namespace genesis {
namespace {

// Of a step: a factor of four wastes little, and each has its prepared products. The largest is enough for matrix
// products at full speed.
constexpr int64_t kRowCounts[] = {1, 2, 4, 16, 64};
// Tokens that a number of rows is tried with, at least.
constexpr int64_t kTried = 16;

}  // namespace

CachedModel::CachedModel(const Config& config, const std::string& checkpoint, const CacheShape& cache,
                         int64_t recurrence, Rows rows)
    : V_(config.model.vocab_size), cache_(cache), device_(open_device(config.device)), storage_(*device_) {
  const DType dtype = compute_type(config.device, device_->kind());
  for (const int64_t n : kRowCounts) {
    steps_.emplace(n,
                   Executable(build_generation_graph(config.model, n, cache, dtype, recurrence), storage_));
  }
  load_parameters(checkpoint, storage_);
  if (rows == Rows::same_bits) keep_same_bits();
}

std::span<const float> CachedModel::run(std::span<const SequenceToken> tokens) {
  require(!tokens.empty() && int64_t(tokens.size()) <= most_tokens(), "one token a row, and one at least");
  run(*steps_.lower_bound(int64_t(tokens.size())), tokens);
  return std::span<const float>(logits_).first(tokens.size() * size_t(V_));
}

std::vector<int64_t> CachedModel::row_counts() const {
  std::vector<int64_t> counts;
  for (const Step& step : steps_) counts.push_back(step.first);
  return counts;
}

void CachedModel::run(Step& step, std::span<const SequenceToken> tokens) {
  const auto write = [&](const char* name, int32_t SequenceToken::*field, int32_t empty) {
    inputs_.assign(size_t(step.first), empty);
    for (size_t i = 0; i < tokens.size(); ++i) inputs_[i] = tokens[i].*field;
    storage_.write(for_count(name, step.first), inputs_.data(), inputs_.size() * sizeof(int32_t));
  };
  write(kTokens, &SequenceToken::token, 0);
  write(kSlots, &SequenceToken::slot, -1);
  write(kPositions, &SequenceToken::position, 0);
  step.second.run(Phase::micro);
  logits_.resize(size_t(step.first * V_));
  storage_.read(for_count(kLogits, step.first), logits_.data(), logits_.size() * sizeof(float));
}

// Of a sequence that is run in whole steps: the logits by position.
std::vector<float> CachedModel::logits_of(Step& step, std::span<const int32_t> tokens, bool reversed) {
  std::vector<float> all;
  for (size_t begin = 0; begin < tokens.size(); begin += size_t(step.first)) {
    const size_t n = std::min(tokens.size() - begin, size_t(step.first));
    std::vector<SequenceToken> rows;
    for (size_t i = 0; i < n; ++i) {
      const size_t at = begin + (reversed ? n - 1 - i : i);
      rows.push_back({tokens[at], 0, int32_t(at)});
    }
    run(step, rows);
    for (size_t i = 0; i < n; ++i) {
      const auto from = logits_.begin() + std::ptrdiff_t((reversed ? n - 1 - i : i) * size_t(V_));
      all.insert(all.end(), from, from + V_);
    }
  }
  return all;
}

// A row's sums may depend on how many rows a product has and on which of them it is: oneDNN has other code for a
// single row, for fewer than 16 in fp32, for the last ones of a number that is no multiple of six. The largest number
// whose rows agree with each other sets the bits; others stay if they give the same.
void CachedModel::keep_same_bits() {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < std::min(cache_.T_max, most_tokens()); ++i) {
    tokens.push_back(int32_t(random_bits(1, 0, uint64_t(i)) % uint64_t(V_)));
  }
  std::vector<float> wanted;
  for (auto step = steps_.end(); step != steps_.begin();) {
    --step;
    const size_t n = std::min(tokens.size(), size_t(std::max(kTried, 2 * step->first)));
    const auto some = std::span(tokens).first(n);
    const std::vector<float> rows = logits_of(*step, some, false);
    const auto same_as = [&](const std::vector<float>& other) {
      return std::memcmp(rows.data(), other.data(), rows.size() * sizeof(float)) == 0;
    };
    if ((wanted.empty() || same_as(wanted)) && same_as(logits_of(*step, some, true))) {
      if (wanted.empty()) wanted = rows;
    } else if (steps_.size() > 1) {  // on a machine on which no number does, the fewest rows
      step = steps_.erase(step);
    }
  }
}

}  // namespace genesis
