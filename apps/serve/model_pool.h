// The models in memory: loaded when first asked for, a few at a time.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "apps/serve/catalogue.h"
#include "apps/serve/engine.h"

namespace genesis {

struct ModelPoolOptions {
  int64_t slots = 16;      // sequences that a model writes at a time
  int64_t context = 0;     // tokens of a sequence at most; 0: as many as the model was trained on
  size_t most_models = 2;  // in memory at a time
  std::string tokenizer;   // in place of the runs' own
};

class ModelPool {
 public:
  explicit ModelPool(ModelPoolOptions options) : options_(std::move(options)) {}

  // Any thread; loading takes its time. The model asked for longest ago makes room. `recurrence` 0: as trained.
  // Throws ApiError: a model that can't be loaded, or recurrence for a dense one; 503 where all in memory are at work.
  std::shared_ptr<ServedModel> get(const CatalogueEntry& entry, int64_t recurrence);
  // The tokenizer alone.
  std::shared_ptr<const Tokenizer> tokenizer(const CatalogueEntry& entry);

 private:
  struct Held {
    std::string key;
    std::shared_ptr<ServedModel> model;
  };
  std::shared_ptr<ServedModel> held(const std::string& key);
  void make_room();

  const ModelPoolOptions options_;
  std::mutex loading_;  // one at a time
  std::mutex mutex_;
  std::list<Held> models_;  // used last first
  std::string tokenizer_key_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace genesis
