// Work over many arrays at once, in pieces whose size does not depend on the number of threads.
#pragma once

#include "kernels/common/parallel.h"

namespace genesis {

// The number of pieces of at most `chunk` elements that `count` tensors, each with a length n, are cut into.
template <class Tensor>
int64_t chunk_count(const Tensor* tensors, int64_t count, int64_t chunk) {
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) total += block_count(tensors[i].n, chunk);
  return total;
}

// Calls body(tensor, begin, end, number) for each piece, in parallel; number counts the pieces in order.
// Finding a piece's tensor is a walk over the tensors: some hundred steps against a chunk's microseconds.
template <class Tensor, class Body>
void parallel_for_chunks(const Tensor* tensors, int64_t count, int64_t chunk, const Body& body) {
  parallel_for(chunk_count(tensors, count, chunk), [&](int64_t number) {
    const Tensor* tensor = tensors;
    int64_t rest = number;
    for (int64_t here; rest >= (here = block_count(tensor->n, chunk)); ++tensor) rest -= here;
    const int64_t begin = rest * chunk;
    body(*tensor, begin, std::min(tensor->n, begin + chunk), number);
  });
}

}  // namespace genesis
