// The thread that computes: it takes a step of each model that has something to do, in turn.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/serve/batcher.h"

namespace genesis {

// A model in memory.
struct ServedModel {
  std::unique_ptr<CachedModel> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Batcher> batcher;
};

class Engine {
 public:
  // At most `most_unfinished` generations wait or run, of all models together.
  explicit Engine(int64_t most_unfinished);
  ~Engine();  // what is unfinished fails

  // All of them or, where that would be too many, none: false.
  bool submit(const std::shared_ptr<ServedModel>& model,
              const std::vector<std::shared_ptr<Generation>>& generations);
  int64_t unfinished() const;

 private:
  void work();
  int64_t count() const;

  const int64_t most_unfinished_;
  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::shared_ptr<ServedModel>> busy_;  // models with something to do
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace genesis
