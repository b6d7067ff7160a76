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

// y[i] = op(x[i], x2[i]); x2 is null for an op of one argument.
template <class T, class Op>
__global__ void map_kernel(int64_t n, const T* x, const T* x2, T* y, Op op) {
  constexpr int N = simt::kVec<T>;
  const int64_t first = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (first + N <= n) {
    float a[N], b[N] = {};
    simt::load_floats<Cache::once>(a, x + first);
    if (x2) simt::load_floats<Cache::once>(b, x2 + first);
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] = op(a[i], b[i]);
    simt::store_floats(y + first, a);
    return;
  }
#pragma unroll 1
  for (int64_t i = first; i < n; ++i) {
    const float b = x2 ? float(simt::load(x2 + i)) : 0.f;
    simt::store(y + i, T(op(float(simt::load(x + i)), b)));
  }
}

simt::Launch launch_of(const char* name, int64_t n, int64_t a_block, Stream stream) {
  return {.grid = {block_count(n, a_block)}, .block = kThreads, .stream = stream, .name = name};
}

template <class Op>
void map(const char* name, DType dtype, int64_t n, const void* x, const void* x2, void* y, Op op,
         Stream stream) {
  with_float_type(dtype, [&](auto type) {
    using T = decltype(type);
    simt::launch(map_kernel<T, Op>, launch_of(name, n, kThreads * simt::kVec<T>, stream), n,
                 static_cast<const T*>(x), static_cast<const T*>(x2), static_cast<T*>(y), op);
  });
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Times {
  float factor;
  __device__ float operator()(float a, float) const { return a * factor; }
};

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

void add(const Add& a, Stream stream) { map("add", a.dtype, a.n, a.a, a.b, a.y, Sum{}, stream); }

void scale(const Scale& a, Stream stream) {
  map("scale", a.dtype, a.n, a.x, nullptr, a.y, Times{a.factor}, stream);
}

void zero(const Zero& a, Stream stream) {
  simt::launch(zero_kernel, launch_of("zero", a.bytes, kThreads * 16, stream), a.bytes,
               static_cast<unsigned char*>(a.y));
}

}  // namespace genesis::cuda
