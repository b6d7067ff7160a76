// Starting a kernel, and a thread's place in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "kernels/common/error.h"
#include "kernels/common/stream.h"
#include "kernels/simt/qualifiers.h"
#include "kernels/simt/site.h"

#ifdef __CUDACC__
#include "kernels/common/cuda.h"
#else
#include "kernels/simt/host/hooks.h"
#endif

namespace genesis::simt {

struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

struct Launch {
  Grid grid;                // blocks; nothing is started if one of them is 0
  int block = 0;            // threads a block, a multiple of 32
  size_t shared_bytes = 0;  // sizeof(Plan) of the kernel's shared<Plan>()
  Stream stream = {};
  const char* name = "";  // for errors and reports
};

// Throws genesis::Error for a grid or a block that no GPU takes.
void check_launch(const Launch& l);

// Runs kernel(args...) by every thread. On a GPU it is queued on the stream. On the host it has run when launch
// returns, inside the open simt::Session; or whoever takes launches (host/queue.h) gets it with its arguments by
// value and runs it later. Throws genesis::Error if the launch is refused, and where it has run also for what the
// session found wrong in the kernel.
template <class... P>
void launch(void (*kernel)(P...), const Launch& l, std::type_identity_t<P>... args) {
  if (l.grid.x == 0 || l.grid.y == 0 || l.grid.z == 0) return;
  check_launch(l);
#ifdef __CUDACC__
  constexpr size_t kWithoutAsking = 48 * 1024;
  if (l.shared_bytes > kWithoutAsking) {
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(l.shared_bytes)),
               "shared memory of", l.name);
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(unsigned(l.grid.x), unsigned(l.grid.y), unsigned(l.grid.z));
  config.blockDim = dim3(unsigned(l.block));
  config.dynamicSmemBytes = l.shared_bytes;
  config.stream = cuda_stream(l.stream);
  check_cuda(cudaLaunchKernelEx(&config, kernel, args...), "launch of", l.name);
#else
  host::launch({{l.name,
                 reinterpret_cast<const void*>(kernel),
                 {l.grid.x, l.grid.y, l.grid.z},
                 l.block,
                 l.shared_bytes},
                [kernel, ... held = args] { kernel(held...); }},
               l.stream);
#endif
}

inline constexpr int kWarpSize = 32;
__device__ inline int lane() { return int(threadIdx.x % kWarpSize); }
__device__ inline int warp() { return int(threadIdx.x / kWarpSize); }

// The block's shared memory as a Plan, a struct of plain arrays, aligned to 128 bytes. Its fields are read
// and written through load and store only: on the host there is no memory at these addresses.
template <class Plan>
__device__ inline Plan& shared([[maybe_unused]] Site site = Site::current()) {
  static_assert(std::is_trivially_copyable_v<Plan> && alignof(Plan) <= 128);
#ifdef __CUDACC__
  extern __shared__ __align__(128) unsigned char simt_shared_memory[];
  return *reinterpret_cast<Plan*>(simt_shared_memory);
#else
  return *static_cast<Plan*>(host::shared_memory(sizeof(Plan), site));
#endif
}

}  // namespace genesis::simt
