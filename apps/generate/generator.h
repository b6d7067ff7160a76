// A model that extends a sequence token by token, with a KV cache.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/runtime/executable.h"
#include "io/config.h"

namespace genesis {

class Generator {
 public:
  // Reads a checkpoint's parameters. `max_tokens`: of the whole sequence, prompt included.
  Generator(const Config& config, const std::string& checkpoint, int64_t max_tokens, int64_t recurrence);

  // Appends tokens and returns the logits [V] for the one after the last, valid until the next call. Throws
  // Error when the sequence would grow past max_tokens.
  std::span<const float> append(std::span<const int32_t> tokens);
  int64_t length() const { return length_; }

 private:
  struct Step {  // a graph that appends n tokens at once
    int64_t n;
    Executable executable;
  };
  void run(Step& step, std::span<const int32_t> tokens);

  const int64_t V_, max_tokens_;
  std::unique_ptr<Device> device_;
  Storage storage_;
  std::vector<Step> steps_;  // largest n first; the last is 1
  std::vector<float> logits_;
  int64_t length_ = 0;
};

}  // namespace genesis
