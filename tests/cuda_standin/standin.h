// What a test tells and asks the stand-ins of libcudart and libcublasLt (README.md): how adversarial they are, and
// what they have seen. A program that uses CUDA's own API alone needs none of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace genesis::standin {

// When a stream's work runs after the call that put it there: not before somebody waits for it; as it happens; before
// the next call.
enum class When { late, mixed, at_once };

// A mistake that a test plants in the program, to see it caught: calls that do nothing and succeed, layouts whose
// leading dimension is off by one vector, and products that allocate memory, which capture forbids.
enum class Mistake { none, no_stream_wait, no_event_wait, no_event_record, wrong_ld, allocating_product };

struct Options {
  uint64_t seed = 1;  // of every choice that CUDA leaves open
  When when = When::mixed;
  size_t memory = size_t(4) << 30;  // bytes that the device has
  Mistake mistake = Mistake::none;
};

// A device as a new process finds it: streams, events, captures and memory of before are gone.
void reset(const Options& options = {});

struct Seen {
  size_t held = 0, most_held = 0;  // bytes that cudaMalloc gave
  int64_t allocations = 0;         // calls of cudaMalloc and cudaMallocHost that gave memory
  int64_t launches = 0;            // kernels that ran, those of graphs too
  int64_t copies = 0;              // that ran
  int64_t products = 0;            // of cuBLASLt, that ran
  int64_t waits = 0;               // calls that waited for work
  int64_t graph_launches = 0;
};
Seen seen();

// What went wrong in work that ran, empty if nothing did. CUDA tells no more than its kind.
std::string fault();

}  // namespace genesis::standin
