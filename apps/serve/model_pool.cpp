#include "apps/serve/model_pool.h"

#include <algorithm>

#include "apps/open_model.h"
#include "apps/serve/api_error.h"
#include "model/executions.h"

namespace genesis {
namespace {

template <class Load>
auto or_api_error(const Load& load) {
  try {
    return load();
  } catch (const ApiError&) {
    throw;
  } catch (const std::exception& e) {
    throw ApiError(500, e.what(), "model");
  }
}

}  // namespace

std::shared_ptr<ServedModel> ModelPool::get(const CatalogueEntry& entry, int64_t recurrence) {
  const ModelSource source =
      or_api_error([&] { return open_model(entry.checkpoint, [](const std::string&) {}); });
  check_field(recurrence == 0 || source.config.model.recurrence.core > 0, "recurrence",
              "is for recurrent models, and this one is dense");
  if (recurrence == 0) recurrence = trained_recurrence(source.config.model);
  // A checkpoint that was written anew under its name is another.
  const std::string key = entry.checkpoint + "\n" + std::to_string(recurrence) + "\n" +
                          std::to_string(source.state.tokens) + source.state.config;
  if (auto model = held(key)) return model;

  const std::scoped_lock loading(loading_);
  if (auto model = held(key)) return model;
  make_room();
  auto model = or_api_error([&] {
    auto m = std::make_shared<ServedModel>();
    m->tokenizer = std::make_unique<Tokenizer>(open_tokenizer(source, options_.tokenizer));
    const int64_t context = options_.context > 0 ? options_.context : source.config.data.sequence_length;
    m->model =
        std::make_unique<CachedModel>(source.config, source.checkpoint, CacheShape{options_.slots, context},
                                      recurrence, CachedModel::Rows::same_bits);
    m->batcher = std::make_unique<Batcher>(*m->model, *m->tokenizer);
    return m;
  });
  const std::scoped_lock lock(mutex_);
  models_.push_front({key, model});
  return model;
}

std::shared_ptr<const Tokenizer> ModelPool::tokenizer(const CatalogueEntry& entry) {
  const ModelSource source =
      or_api_error([&] { return open_model(entry.checkpoint, [](const std::string&) {}); });
  const std::string key = entry.run_dir + "\n" + source.state.tokenizer_hash;
  const std::scoped_lock lock(mutex_);
  if (key != tokenizer_key_) {
    tokenizer_ =
        or_api_error([&] { return std::make_shared<Tokenizer>(open_tokenizer(source, options_.tokenizer)); });
    tokenizer_key_ = key;
  }
  return tokenizer_;
}

std::shared_ptr<ServedModel> ModelPool::held(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto it = std::find_if(models_.begin(), models_.end(), [&](const Held& h) { return h.key == key; });
  if (it == models_.end()) return nullptr;
  models_.splice(models_.begin(), models_, it);
  return it->model;
}

// Before a model is loaded, so that there are never more in memory. Who else holds one is at work with it.
void ModelPool::make_room() {
  const std::scoped_lock lock(mutex_);
  while (models_.size() >= options_.most_models) {
    const auto idle = std::find_if(models_.rbegin(), models_.rend(),
                                   [](const Held& h) { return h.model.use_count() == 1; });
    if (idle == models_.rend()) {
      throw ApiError(503,
                     "all " + std::to_string(models_.size()) +
                         " models that the server may hold are at work: try again later, or start it with a "
                         "larger --models");
    }
    models_.erase(std::next(idle).base());
  }
}

}  // namespace genesis
