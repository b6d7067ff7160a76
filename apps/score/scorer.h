// Log-probabilities of given tokens: many short sequences, or parts of long ones, at once.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/runtime/executable.h"
#include "io/config.h"

namespace genesis {

struct ScoredSequence {
  std::vector<int32_t> tokens;
  int64_t first =
      1;  // tokens[first] and later ones are scored, each after all that are before it; 1 at least
};

struct TokenScore {
  float log_prob = 0;
  bool greedy = false;                         // no token was likelier
  std::vector<std::pair<int32_t, float>> top;  // the likeliest tokens and their log-probabilities, best first
};

// Sequences are packed into rows of T tokens, each beginning where a tile of attention does, so that a sequence's
// scores have the same bits alone and in any company (tests/apps/scorer_test.cpp).
class Scorer {
 public:
  // On the parameters in `storage`: load them once the scorer is made. Of sequences up to T + 1 tokens.
  Scorer(const Config::Model& model, int64_t B, int64_t T, DType dtype, int64_t recurrence, Storage& storage);

  // A score for each token that is asked for, sequence by sequence. `top`: how many of the likeliest tokens come
  // with each. Throws Error for an output that is not finite.
  std::vector<std::vector<TokenScore>> score(std::span<const ScoredSequence> sequences, int64_t top = 0);

 private:
  struct Place {
    size_t sequence;
    int64_t begin;  // in the batch's B rows
  };
  std::vector<std::vector<Place>> pack(std::span<const ScoredSequence> sequences) const;
  void run(std::span<const ScoredSequence> sequences, const std::vector<Place>& batch);
  void score_rows(const std::vector<int64_t>& rows, const std::vector<int32_t>& targets, int64_t top,
                  std::vector<TokenScore>& scores);

  const int64_t B_, T_, row_, D_, V_;  // row_: T_ in whole tiles
  const DType dtype_;
  Storage& storage_;
  Executable body_, head_;
  std::vector<std::byte> hidden_;
  std::vector<float> logits_;
};

}  // namespace genesis
