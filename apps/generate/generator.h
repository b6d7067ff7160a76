// A model that extends one sequence token by token, with a KV cache.
#pragma once

#include <span>
#include <string>

#include "apps/generate/cached_model.h"
#include "io/config.h"

namespace genesis {

class Generator {
 public:
  // Reads a checkpoint's parameters. `max_tokens`: of the whole sequence, prompt included.
  Generator(const Config& config, const std::string& checkpoint, int64_t max_tokens, int64_t recurrence)
      : model_(config, checkpoint, {1, max_tokens}, recurrence, CachedModel::Rows::fewest) {}

  // Appends tokens and returns the logits [V] for the one after the last, valid until the next call. Throws
  // Error when the sequence would grow past max_tokens.
  std::span<const float> append(std::span<const int32_t> tokens);
  int64_t length() const { return length_; }

 private:
  CachedModel model_;
  int64_t length_ = 0;
};

}  // namespace genesis
