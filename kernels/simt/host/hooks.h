// What kernels/simt and kernels/ptx call when a kernel runs on the host. Not for kernels to call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "kernels/common/stream.h"
#include "kernels/simt/site.h"

namespace genesis::simt::host {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

}  // namespace genesis::simt::host

// CUDA's names for a thread's place.
inline constinit thread_local genesis::simt::host::Index threadIdx, blockIdx, blockDim, gridDim;

namespace genesis::simt::host {

struct LaunchShape {
  const char* name;
  const void* kernel;
  int64_t grid[3];
  int block;
  size_t shared_bytes;
};

// A kernel with its arguments, by value.
struct Launched {
  LaunchShape shape;
  std::function<void()> body;  // what every thread calls
};

inline int lane() { return int(threadIdx.x % 32); }

// Runs the blocks inside the open session, or gives the launch to whoever takes launches (queue.h).
void launch(Launched launched, Stream stream);

enum class Kind : uint8_t { load, store, copy, matrix };

void* shared_memory(size_t bytes, Site site);
// Throws unless the address is of that memory, for instructions that know only one.
enum class Where : uint8_t { global, shared };
void expect(const void* address, Where where, Site site);
void read(void* value, const void* address, size_t bytes, Kind kind, Site site);
void write(void* address, const void* value, size_t bytes, Site site);

void barrier(Site site);
void sync_warp(Site site);

void copy_async(void* shared, const void* global, int bytes, int source_bytes, Site site);
void commit_copies();
void wait_copies(int groups_left);
void count_mma();

// A warp operation: the calling lane leaves `mine` and waits for the lanes of the mask. The last to arrive
// gets the 32 pointers left (null for lanes outside the mask), computes every lane's result and calls leave;
// the others get null once their result is there. `what` names the operation in errors.
void* const* meet(const char* what, uint32_t mask, void* mine, Site site);
void leave(uint32_t mask);

// meet with a function: compute(lanes) is called once, with the lanes' arguments.
template <class Lane, class Compute>
void together(const char* what, uint32_t mask, Lane& mine, Site site, const Compute& compute) {
  if (void* const* all = meet(what, mask, &mine, site)) {
    Lane* lanes[32];
    for (int i = 0; i < 32; ++i) lanes[i] = static_cast<Lane*>(all[i]);
    compute(lanes);
    leave(mask);
  }
}

[[noreturn]] void fail_shuffle(int lane, int source, Site site);

template <class T>
T shuffle(T value, int source, uint32_t mask, Site site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  struct Lane {
    T value, result;
    int source;
  } mine{value, value, source & 31};
  together("shuffle", mask, mine, site, [&](Lane* const* lanes) {
    for (int i = 0; i < 32; ++i) {
      if (!lanes[i]) continue;
      if (!lanes[lanes[i]->source]) fail_shuffle(i, lanes[i]->source, site);
      lanes[i]->result = lanes[lanes[i]->source]->value;
    }
  });
  return mine.result;
}

uint32_t ballot(bool predicate, uint32_t mask, Site site);

}  // namespace genesis::simt::host
