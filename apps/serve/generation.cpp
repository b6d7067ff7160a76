#include "apps/serve/generation.h"

#include <iterator>

namespace genesis {

Generation::News Generation::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return !news_.tokens.empty() || news_.end; });
  News news{std::move(news_.tokens), news_.end, news_.error};
  news_.tokens.clear();
  return news;
}

void Generation::wait_for_news(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return !news_.tokens.empty() || news_.end; });
}

void Generation::cancel() {
  const std::scoped_lock lock(mutex_);
  cancelled_ = true;
}

bool Generation::cancelled() const {
  const std::scoped_lock lock(mutex_);
  return cancelled_;
}

void Generation::add(std::vector<GeneratedToken> tokens) {
  if (tokens.empty()) return;
  const std::scoped_lock lock(mutex_);
  news_.tokens.insert(news_.tokens.end(), std::make_move_iterator(tokens.begin()),
                      std::make_move_iterator(tokens.end()));
  changed_.notify_all();
}

void Generation::finish(End end, std::string error) {
  const std::scoped_lock lock(mutex_);
  news_.end = end;
  news_.error = std::move(error);
  changed_.notify_all();
}

}  // namespace genesis
