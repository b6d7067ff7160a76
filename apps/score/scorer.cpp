#include "apps/score/scorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "model/decoder.h"

namespace genesis {
namespace {

constexpr int64_t kTile = 64;       // where sequences begin: attention's tile on every device
constexpr int64_t kHeadBatch = 64;  // rows whose logits exist at a time

int64_t aligned(int64_t n) { return (n + kTile - 1) / kTile * kTile; }

// The tokens of a sequence that the model reads: all but the last.
int64_t read_of(const ScoredSequence& s) { return int64_t(s.tokens.size()) - 1; }

std::vector<std::pair<int32_t, float>> likeliest(std::span<const float> logits, float lse, int64_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto middle = ids.begin() + std::min<std::ptrdiff_t>(count, std::ptrdiff_t(ids.size()));
  std::partial_sort(ids.begin(), middle, ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[size_t(a)], y = logits[size_t(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<std::pair<int32_t, float>> top;
  for (auto id = ids.begin(); id != middle; ++id) top.emplace_back(*id, logits[size_t(*id)] - lse);
  return top;
}

}  // namespace

Scorer::Scorer(const Config::Model& model, int64_t B, int64_t T, DType dtype, int64_t recurrence,
               Storage& storage)
    : B_(B),
      T_(T),
      row_(aligned(T)),
      D_(model.hidden_size),
      V_(model.vocab_size),
      dtype_(dtype),
      storage_(storage),
      body_(build_hidden_graph(model, B_, row_, dtype, recurrence), storage),
      head_(build_head_graph(model, kHeadBatch, dtype), storage),
      hidden_(size_t(B_ * row_ * D_) * size_of(dtype)),
      logits_(size_t(kHeadBatch * V_)) {}

std::vector<std::vector<TokenScore>> Scorer::score(std::span<const ScoredSequence> sequences, int64_t top) {
  for (const ScoredSequence& s : sequences) {
    require(s.first >= 1 && s.first < int64_t(s.tokens.size()), "a sequence has a token to score");
    require(read_of(s) <= T_, "a sequence has at most T + 1 tokens");
  }
  std::vector<std::vector<TokenScore>> scores(sequences.size());
  for (const std::vector<Place>& batch : pack(sequences)) {
    run(sequences, batch);
    std::vector<int64_t> rows;
    std::vector<int32_t> targets;
    for (const Place& place : batch) {
      const ScoredSequence& s = sequences[place.sequence];
      for (int64_t i = s.first; i < int64_t(s.tokens.size()); ++i) {
        rows.push_back(place.begin + i - 1);
        targets.push_back(s.tokens[size_t(i)]);
      }
    }
    std::vector<TokenScore> all;
    score_rows(rows, targets, top, all);
    auto next = std::make_move_iterator(all.begin());
    for (const Place& place : batch) {
      const ScoredSequence& s = sequences[place.sequence];
      const std::ptrdiff_t n = std::ptrdiff_t(s.tokens.size()) - s.first;
      scores[place.sequence].assign(next, next + n);
      next += n;
    }
  }
  return scores;
}

// Longest first, each into the first row with room.
std::vector<std::vector<Scorer::Place>> Scorer::pack(std::span<const ScoredSequence> sequences) const {
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return read_of(sequences[a]) > read_of(sequences[b]); });
  std::vector<int64_t> used;  // of each row, over all batches
  std::vector<std::vector<Place>> batches;
  for (size_t i : order) {
    const int64_t length = aligned(read_of(sequences[i]));
    size_t row = 0;
    while (row < used.size() && used[row] + length > row_) ++row;
    if (row == used.size()) used.push_back(0);
    const size_t batch = row / size_t(B_);
    if (batch == batches.size()) batches.emplace_back();
    batches[batch].push_back({i, int64_t(row) % B_ * row_ + used[row]});
    used[row] += length;
  }
  return batches;
}

void Scorer::run(std::span<const ScoredSequence> sequences, const std::vector<Place>& batch) {
  // What is not filled are documents of one token.
  std::vector<int32_t> tokens(size_t(B_ * row_), 0), positions(tokens.size(), 0);
  for (const Place& place : batch) {
    const ScoredSequence& s = sequences[place.sequence];
    std::copy_n(s.tokens.begin(), read_of(s), tokens.begin() + place.begin);
    std::iota(positions.begin() + place.begin, positions.begin() + place.begin + read_of(s), 0);
  }
  storage_.write(kTokens, tokens.data(), tokens.size() * sizeof(int32_t));
  storage_.write(kPositions, positions.data(), positions.size() * sizeof(int32_t));
  body_.run(Phase::micro);
  storage_.read(kHidden, hidden_.data(), hidden_.size());
}

void Scorer::score_rows(const std::vector<int64_t>& rows, const std::vector<int32_t>& targets, int64_t top,
                        std::vector<TokenScore>& scores) {
  scores.resize(rows.size());
  const size_t row_bytes = size_t(D_) * size_of(dtype_);
  std::vector<std::byte> chosen(size_t(kHeadBatch) * row_bytes);
  std::vector<float> scratch(cpu::cross_entropy_workspace(V_) / sizeof(float));
  for (size_t begin = 0; begin < rows.size(); begin += size_t(kHeadBatch)) {
    const size_t n = std::min(size_t(kHeadBatch), rows.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      std::memcpy(&chosen[i * row_bytes], &hidden_[size_t(rows[begin + i]) * row_bytes], row_bytes);
    }
    storage_.write(for_count(kHeadRows, kHeadBatch), chosen.data(), chosen.size());
    head_.run(Phase::micro);
    storage_.read(for_count(kLogits, kHeadBatch), logits_.data(), logits_.size() * sizeof(float));

    float row_loss[kHeadBatch];
    LossSum sums;
    CrossEntropy loss;
    loss.rows = int64_t(n);
    loss.V = loss.stride = V_;
    loss.logits = logits_.data();
    loss.targets = targets.data() + begin;
    loss.row_loss = row_loss;
    loss.loss_and_count = &sums;
    loss.workspace = scratch.data();
    cpu::cross_entropy(loss);
    parallel_for(int64_t(n), [&](int64_t i) {
      const std::span<const float> logits(&logits_[size_t(i * V_)], size_t(V_));
      const float logit = logits[size_t(loss.targets[i])];
      TokenScore& score = scores[begin + size_t(i)];
      score.log_prob = -row_loss[i];
      score.greedy = logit >= *std::max_element(logits.begin(), logits.end());
      if (top > 0) score.top = likeliest(logits, logit + row_loss[i], top);
    });
    for (size_t i = 0; i < n; ++i) {
      check(std::isfinite(row_loss[i]), "the model's output is not finite: it has diverged");
    }
  }
}

}  // namespace genesis
