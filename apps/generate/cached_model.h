// A model that remembers several sequences, and extends them together.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/executable.h"
#include "io/config.h"
#include "model/decoder.h"

namespace genesis {

struct SequenceToken {
  int32_t token = 0;
  int32_t slot = 0;      // the sequence's place in the cache
  int32_t position = 0;  // in the sequence; all before it are in the cache, or in the same call
};

class CachedModel {
 public:
  // A call of few tokens is computed in fewer rows than one of many, and a product of few rows may be summed in
  // another order.
  enum class Rows {
    fewest,     // the fastest for so many tokens
    same_bits,  // those alone that give every token the same logits, bit for bit, whatever shares its step
  };

  // Reads a checkpoint's parameters. With Rows::same_bits it is tried out which numbers of rows keep that promise: it
  // depends on the CPU and on the library that multiplies.
  CachedModel(const Config& config, const std::string& checkpoint, const CacheShape& cache,
              int64_t recurrence, Rows rows);

  // Appends up to most_tokens() tokens and returns the logits [tokens, V] for the ones after them, valid until the
  // next call.
  std::span<const float> run(std::span<const SequenceToken> tokens);
  int64_t most_tokens() const { return steps_.rbegin()->first; }

  int64_t vocab_size() const { return V_; }
  const CacheShape& cache() const { return cache_; }
  std::vector<int64_t> row_counts() const;  // that a step can have, ascending
  size_t bytes() const { return storage_.bytes(); }

 private:
  using Step = std::pair<const int64_t, Executable>;  // a graph of so many rows
  void run(Step& step, std::span<const SequenceToken> tokens);
  void keep_same_bits();
  std::vector<float> logits_of(Step& step, std::span<const int32_t> tokens, bool reversed);

  const int64_t V_;
  const CacheShape cache_;
  std::unique_ptr<Device> device_;
  Storage storage_;
  std::map<int64_t, Executable> steps_;
  std::vector<int32_t> inputs_;
  std::vector<float> logits_;
};

}  // namespace genesis
