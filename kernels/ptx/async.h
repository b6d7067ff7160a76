// Asynchronous copies from global to shared memory.
// PTX ISA 8.x, "cp.async", "cp.async.commit_group", "cp.async.wait_group"; sm_80.
#pragma once

#include <cstdint>

#include "kernels/simt/qualifiers.h"
#include "kernels/simt/site.h"

#ifndef __CUDACC__
#include "kernels/simt/host/hooks.h"
#endif

namespace genesis::ptx {

// Copies `bytes` (4, 8 or 16, the alignment of both addresses), of which the first source_bytes come from
// global memory and the rest are zero: with source_bytes 0 the global address is not read, and need only be
// aligned. Seen by the thread itself after its wait, by others after a barrier that follows it. 16-byte
// copies bypass L1 (.cg); the smaller ones cannot.
template <int bytes>
__device__ inline void copy_async(void* shared, const void* global, int source_bytes = bytes,
                                  [[maybe_unused]] simt::Site site = simt::Site::current()) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
#ifdef __CUDACC__
  const auto target = uint32_t(__cvta_generic_to_shared(shared));
  const auto source = __cvta_generic_to_global(global);
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(source_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(source), "n"(bytes),
                 "r"(source_bytes)
                 : "memory");
  }
#else
  simt::host::copy_async(shared, global, bytes, source_bytes, site);
#endif
}

// Makes a group of the thread's copies since the last one; it may be empty.
__device__ inline void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  simt::host::commit_copies();
#endif
}

// Waits until at most `groups_left` of the thread's latest groups are under way.
template <int groups_left>
__device__ inline void wait_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
#else
  simt::host::wait_copies(groups_left);
#endif
}

}  // namespace genesis::ptx
