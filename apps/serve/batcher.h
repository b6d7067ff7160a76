// Continuous batching: generations of one model that come and go share its steps. Each has a slot of the cache while it
// runs; a step takes one token of each that writes, and fills what is left of its rows with prompts, oldest first.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "apps/generate/cached_model.h"
#include "apps/serve/generation.h"
#include "apps/serve/stop_text.h"
#include "io/tokenizer.h"

namespace genesis {

class Batcher {
 public:
  Batcher(CachedModel& model, const Tokenizer& tokenizer);

  // Any thread. They wait for a slot in the order in which they come; a prompt and max_tokens are at most room() together.
  void add(std::shared_ptr<Generation> generation);
  int64_t room() const { return model_.cache().T_max + 1; }
  int64_t unfinished() const;  // that wait or run

  // One thread. Ends what is cancelled or late, then one step of the model. False: there is nothing to do.
  bool step();
  // What is unfinished fails.
  void abandon(const std::string& reason);

 private:
  struct Running {
    Running(std::shared_ptr<Generation> g, int32_t slot, const Tokenizer& tokenizer)
        : generation(std::move(g)),
          slot(slot),
          sampler(generation->request().sampling),
          decoder(tokenizer),
          stop(generation->request().stop) {}

    std::shared_ptr<Generation> generation;
    int32_t slot;
    Sampler sampler;
    StreamDecoder decoder;
    StopText stop;
    size_t read = 0;                    // of the prompt's tokens
    int64_t made = 0;                   // tokens
    int32_t last = 0;                   // the token made last, which is not in the cache
    std::vector<GeneratedToken> fresh;  // of this step
    std::optional<End> end;
    std::string error;

    bool writes() const { return read == generation->request().prompt.size(); }
  };
  // A running generation's rows in a step.
  struct Part {
    Running* running;
    size_t row, count;
  };

  void take_waiting();
  void end_unwanted();
  std::vector<Part> gather(std::vector<SequenceToken>& rows);
  void digest(const Part& part, std::span<const float> logits);
  void echo(Running& r, size_t at, std::span<const float> logits);
  void write(Running& r, std::span<const float> logits);
  void score(GeneratedToken& token, const GenerationRequest& request, std::span<const float> logits) const;
  void deliver();

  CachedModel& model_;
  const Tokenizer& tokenizer_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<Generation>> waiting_;
  int64_t taken_ = 0;           // running, for other threads
  std::list<Running> running_;  // in the order in which they came
  std::vector<int32_t> free_slots_;
};

}  // namespace genesis
