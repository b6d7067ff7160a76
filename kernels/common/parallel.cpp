#include "kernels/common/parallel.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/common/available_cpus.h"

namespace genesis {
namespace {

// How long a thread looks before it sleeps: about what waking it takes, and far shorter than what the system
// gives a process at a time. OpenMP's threads look for milliseconds; beside one busy process each kept the
// others from the core that they waited for, and a step took up to 20 times as long (docs/performance.md).
constexpr std::chrono::microseconds kLook(20);

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns what `word` holds once ready(it): looks for kLook, then sleeps until it is notified.
template <class Ready>
uint32_t wait_until(const std::atomic<uint32_t>& word, const Ready& ready) {
  const auto give_up = std::chrono::steady_clock::now() + kLook;
  for (;;) {
    const uint32_t held = word.load(std::memory_order_acquire);
    if (ready(held)) return held;
    if (std::chrono::steady_clock::now() < give_up) {
      pause();
    } else {
      word.wait(held, std::memory_order_acquire);
    }
  }
}

thread_local int index_here = 0;
thread_local bool inside = false;

// Nobody waits for a thread that has not begun: it finds the loop closed when it comes, and whoever has time
// takes the next iteration. So a loop ends as soon as the threads that run have done it.
class Pool {
 public:
  // Threads beside the callers, so that there are `threads` in all.
  void make(int threads) {
    for (; made_ < threads - 1; ++made_) {
      std::thread([this, index = made_ + 1] { work_for_ever(index); }).detach();
    }
  }

  void share_out(int64_t n, int threads, detail::Task task, const void* body) {
    make(threads);
    task_ = task;
    body_ = body;
    n_ = n;
    threads_ = threads;
    next_.store(0, std::memory_order_relaxed);
    error_ = nullptr;
    members_.store(kOpen, std::memory_order_release);
    loop_.fetch_add(1, std::memory_order_release);
    loop_.notify_all();
    take_turns(0);
    members_.fetch_and(~kOpen, std::memory_order_acq_rel);
    wait_until(members_, [](uint32_t members) { return members == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  static constexpr uint32_t kOpen = uint32_t(1) << 31;

  [[noreturn]] void work_for_ever(int index) {
    for (uint32_t seen = 0;;) {
      seen = wait_until(loop_, [&](uint32_t loop) { return loop != seen; });
      uint32_t members = members_.load(std::memory_order_relaxed);
      while (members & kOpen) {
        if (!members_.compare_exchange_weak(members, members + 1, std::memory_order_acquire)) continue;
        if (index < threads_) take_turns(index);
        if (members_.fetch_sub(1, std::memory_order_release) == 1) members_.notify_one();
        break;
      }
    }
  }

  void take_turns(int index) {
    index_here = index;
    inside = true;
    try {
      for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < n_;) task_(body_, i);
    } catch (...) {
      next_.store(n_, std::memory_order_relaxed);
      const std::lock_guard lock(error_lock_);
      if (!error_) error_ = std::current_exception();
    }
    inside = false;
    index_here = 0;
  }

  int made_ = 0;
  // The loop at work. Written while it is closed and has no members.
  detail::Task task_ = nullptr;
  const void* body_ = nullptr;
  int64_t n_ = 0;
  int threads_ = 0;
  std::exception_ptr error_;
  std::mutex error_lock_;

  alignas(64) std::atomic<uint32_t> loop_ = 0;     // counts the loops
  alignas(64) std::atomic<uint32_t> members_ = 0;  // pool's threads in the loop, and whether more may join
  alignas(64) std::atomic<int64_t> next_ = 0;      // iteration to take
};

std::atomic<int> chosen = 0;
std::mutex one_loop;

// Never destroyed: its threads end with the process.
Pool& pool() {
  static Pool& made = *new Pool;
  return made;
}

}  // namespace

int thread_count() {
  static const int all = available_cpus();
  const int threads = chosen.load(std::memory_order_relaxed);
  return threads > 0 ? threads : all;
}

void set_thread_count(int threads) { chosen.store(threads, std::memory_order_relaxed); }

void start_threads() {
  const std::lock_guard lock(one_loop);
  pool().make(thread_count());
}

int thread_index() { return index_here; }

namespace detail {

void share_out(int64_t n, Task task, const void* body) {
  const int threads = int(std::min<int64_t>(n, thread_count()));
  if (threads > 1 && !inside) {
    if (const std::unique_lock lock(one_loop, std::try_to_lock); lock) {
      return pool().share_out(n, threads, task, body);
    }
  }
  for (int64_t i = 0; i < n; ++i) task(body, i);
}

}  // namespace detail
}  // namespace genesis
