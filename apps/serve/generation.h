// One text that is asked for: what it is to be, and its tokens as they come. Shared by the thread that asks and the
// engine's that answers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/sampler.h"

namespace genesis {

struct GenerationRequest {
  std::vector<int32_t> prompt;  // one token at least
  int64_t max_tokens = 16;      // to make; 0: the prompt is scored alone
  SamplingOptions sampling;
  uint64_t seed = 0;
  std::optional<int64_t>
      top;          // each token's log-probability is wanted, with so many of the likeliest beside it
  size_t echo = 0;  // so many of the prompt's last tokens come first
  std::vector<std::string> stop;  // texts that end it, and are left out
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

struct GeneratedToken {
  GeneratedToken(int32_t id, std::string text) : id(id), text(std::move(text)) {}

  int32_t id;
  std::string text;  // what it adds: whole characters, so that a token may add nothing and the next two
  std::optional<float> log_prob;               // none: not asked for, or nothing before it
  std::vector<std::pair<int32_t, float>> top;  // likeliest first
  bool of_prompt = false;
};

enum class End : uint8_t {
  stop,       // a stop text, or the end of the document
  length,     // max_tokens
  cancelled,  // by who asked
  late,       // the deadline passed
  failed,     // see the error
};

class Generation {
 public:
  explicit Generation(GenerationRequest request) : request_(std::move(request)) {}
  const GenerationRequest& request() const { return request_; }

  struct News {
    std::vector<GeneratedToken> tokens;
    std::optional<End> end;
    std::string error;
  };
  // For who asks. What has come since the last call; waits for some at most so long.
  News wait(std::chrono::milliseconds most);
  // Returns when there is news, which stays, or after so long.
  void wait_for_news(std::chrono::milliseconds most);
  // Nobody waits for it any more. It ends before the engine's next step.
  void cancel();

  // For the engine.
  bool cancelled() const;
  void add(std::vector<GeneratedToken> tokens);
  void finish(End end, std::string error = "");

 private:
  const GenerationRequest request_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  News news_;
  bool cancelled_ = false;
};

}  // namespace genesis
