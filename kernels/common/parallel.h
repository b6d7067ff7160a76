// The CPU device's threads: one pool, made when first needed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/common/block_count.h"

namespace genesis {

// Threads that parallel_for uses, the caller among them: all CPUs that the process may use (available_cpus.h)
// until set_thread_count says otherwise, of which there may be more.
int thread_count();
void set_thread_count(int threads);

// Makes the threads that a loop would make when it first needs them: std::system_error where the system gives no more,
// so that it can be told before anything is begun. Not from inside of a loop.
void start_threads();

// Inside parallel_for: the calling thread's number, in [0, thread_count()). For scratch memory.
int thread_index();

namespace detail {
using Task = void (*)(const void* body, int64_t i);
void share_out(int64_t n, Task task, const void* body);
}  // namespace detail

// Calls body(i) for i in [0, n), each exactly once, in any order and on any thread. An iteration should be at
// least some microseconds of work: callers split their rows into blocks whose size depends on shapes alone,
// never on the number of threads, so that sums over blocks have the same bits on every machine. The first
// exception that leaves a body is thrown again here, and iterations that had not begun are left out. Inside a
// body, and while another thread is in parallel_for, the calling thread does it all.
template <class Body>
void parallel_for(int64_t n, const Body& body) {
  if (n == 1) return body(0);
  detail::share_out(
      n, [](const void* b, int64_t i) { (*static_cast<const Body*>(b))(i); }, &body);
}

// Calls body(r) for r in [0, rows), in tasks of `block` rows.
template <class Body>
void parallel_for_rows(int64_t rows, int64_t block, const Body& body) {
  parallel_for(block_count(rows, block), [&](int64_t i) {
    const int64_t end = std::min(rows, (i + 1) * block);
    for (int64_t r = i * block; r < end; ++r) body(r);
  });
}

}  // namespace genesis
