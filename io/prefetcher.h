// Values made ahead of their use by a background thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace genesis {

// Calls `produce` in one background thread, at most `depth` values ahead, until it returns nullopt or throws.
// next() gives the values in order, then nullopt for ever, or throws what produce threw, each time it is
// called.
template <class T>
class Prefetcher {
 public:
  Prefetcher(size_t depth, std::function<std::optional<T>()> produce)
      : depth_(depth), produce_(std::move(produce)), thread_([this] { run(); }) {}

  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  std::optional<T> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || done_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    T value = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return value;
  }

 private:
  void run() {
    try {
      while (true) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return ready_.size() < depth_ || stop_; });
          if (stop_) return;
        }
        std::optional<T> value = produce_();
        if (!value) break;
        {
          const std::lock_guard lock(mutex_);
          ready_.push_back(std::move(*value));
        }
        changed_.notify_all();
      }
    } catch (...) {
      error_ = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
  }

  const size_t depth_;
  const std::function<std::optional<T>()> produce_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> ready_;
  std::exception_ptr error_;  // written before done_
  bool stop_ = false, done_ = false;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace genesis
