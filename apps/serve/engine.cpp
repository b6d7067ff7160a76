#include "apps/serve/engine.h"

#include <algorithm>
#include <exception>

namespace genesis {

Engine::Engine(int64_t most_unfinished) : most_unfinished_(most_unfinished), thread_([this] { work(); }) {}

Engine::~Engine() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  more_.notify_all();
  thread_.join();
}

bool Engine::submit(const std::shared_ptr<ServedModel>& model,
                    const std::vector<std::shared_ptr<Generation>>& generations) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_ || count() + int64_t(generations.size()) > most_unfinished_) return false;
    for (const auto& g : generations) model->batcher->add(g);
    if (std::find(busy_.begin(), busy_.end(), model) == busy_.end()) busy_.push_back(model);
  }
  more_.notify_all();
  return true;
}

int64_t Engine::unfinished() const {
  const std::scoped_lock lock(mutex_);
  return count();
}

int64_t Engine::count() const {
  int64_t n = 0;
  for (const auto& model : busy_) n += model->batcher->unfinished();
  return n;
}

void Engine::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [&] { return stopping_ || !busy_.empty(); });
    if (stopping_) break;
    const auto models = busy_;
    lock.unlock();
    for (const auto& model : models) {
      try {
        model->batcher->step();
      } catch (const std::exception& e) {  // what one model can't do must not end the others
        model->batcher->abandon(e.what());
      }
    }
    lock.lock();
    std::erase_if(busy_, [](const auto& model) { return model->batcher->unfinished() == 0; });
  }
  for (const auto& model : busy_) model->batcher->abandon("the server is stopping");
}

}  // namespace genesis
