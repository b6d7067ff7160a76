// Memory-bound: a thread reads and writes 16 bytes an access. What is written stays in L2 as long as it may:
// the next kernel reads it.
#include "kernels/common/block_count.h"
#include "kernels/common/dispatch.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::Cache;

constexpr int kThreads = 256;

template <class T>
__global__ void add_kernel(int64_t n, const T* a, const T* b, T* y) {
  constexpr int N = simt::kVec<T>;
  const int64_t first = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (first + N <= n) {
    float x[N], z[N];
    simt::load_floats<Cache::once>(x, a + first);
    simt::load_floats<Cache::once>(z, b + first);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] += z[i];
    simt::store_floats(y + first, x);
    return;
  }
#pragma unroll 1
  for (int64_t i = first; i < n; ++i) {
    simt::store(y + i, T(float(simt::load(a + i)) + float(simt::load(b + i))));
  }
}

simt::Launch launch_of(const char* name, int64_t n, int64_t a_block, Stream stream) {
  return {.grid = {block_count(n, a_block)}, .block = kThreads, .stream = stream, .name = name};
}

// A warp takes a tile.
template <class From, class To>
__global__ void cast_kernel(int64_t n, const From* x, To* y) {
  const int64_t tile = int64_t(blockIdx.x) * kThreads * 8 + simt::warp() * simt::kWarpTile;
  if (tile + simt::kWarpTile <= n) {
    float values[8];
    simt::load_tile<Cache::once>(values, x + tile);
    simt::store_tile(y + tile, values);
  } else {
#pragma unroll 1
    for (int64_t i = tile + simt::lane(); i < n; i += simt::kWarpSize) {
      simt::store(y + i, To(float(simt::load(x + i))));
    }
  }
}

__global__ void zero_kernel(int64_t bytes, unsigned char* y) {
  const int64_t first = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * 16;
  if (first + 16 <= bytes) {
    simt::store_vec(reinterpret_cast<uint32_t*>(y + first), simt::Vec<uint32_t, 4>{});
  } else {
#pragma unroll 1
    for (int64_t i = first; i < bytes; ++i) simt::store(y + i, 0);
  }
}

}  // namespace

void cast(const Cast& a, Stream stream) {
  with_float_type(a.from, [&](auto from) {
    with_float_type(a.to, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      simt::launch(cast_kernel<From, To>, launch_of("cast", a.n, kThreads * 8, stream), a.n,
                   static_cast<const From*>(a.x), static_cast<To*>(a.y));
    });
  });
}

void add(const Add& a, Stream stream) {
  with_float_type(a.dtype, [&](auto type) {
    using T = decltype(type);
    simt::launch(add_kernel<T>, launch_of("add", a.n, kThreads * simt::kVec<T>, stream), a.n,
                 static_cast<const T*>(a.a), static_cast<const T*>(a.b), static_cast<T*>(a.y));
  });
}

void zero(const Zero& a, Stream stream) {
  simt::launch(zero_kernel, launch_of("zero", a.bytes, kThreads * 16, stream), a.bytes,
               static_cast<unsigned char*>(a.y));
}

}  // namespace genesis::cuda
