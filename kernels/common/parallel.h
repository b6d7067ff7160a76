// The CPU device's threads: one pool, OpenMP's, shared with oneDNN.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/common/block_count.h"

namespace genesis {

// Threads that parallel_for uses: OpenMP's maximum.
int thread_count();
void set_thread_count(int threads);

// Inside parallel_for: the calling thread's number, in [0, thread_count()). For scratch memory.
int thread_index();

// Calls body(i) for i in [0, n), each exactly once, in any order and on any thread. An iteration should be at
// least some microseconds of work: callers split their rows into blocks whose size depends on shapes alone,
// never on the number of threads, so that sums over blocks have the same bits on every machine.
template <class Body>
void parallel_for(int64_t n, const Body& body) {
  if (n == 1) return body(0);  // OpenMP would allocate a team of one
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t i = 0; i < n; ++i) body(i);
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
