// Memory-bound: a thread reads and writes 16 bytes, or 8 of the smaller type.
#include <algorithm>

#include "kernels/common/dispatch.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::Cache;

constexpr int kThreads = 256;

// Elements a thread takes: 16 bytes of the larger type, so that a warp's accesses are whole lines.
template <class From, class To>
constexpr int kPerThread = 16 / int(std::max(sizeof(From), sizeof(To)));

// y[i] = op(x[i], x2[i]); x2 is null for an op of one argument.
template <class From, class To, class Op>
__global__ void map_kernel(int64_t n, const From* x, const From* x2, To* y, Op op) {
  constexpr int N = kPerThread<From, To>;
  const int64_t first = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (first + N <= n) {
    float a[N], b[N] = {};
    simt::load_floats<Cache::once>(a, x + first);
    if (x2) simt::load_floats<Cache::once>(b, x2 + first);
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] = op(a[i], b[i]);
    simt::store_floats<Cache::once>(y + first, a);
    return;
  }
  for (int64_t i = first; i < n; ++i) {
    const float b = x2 ? float(simt::load(x2 + i)) : 0.f;
    simt::store(y + i, To(op(float(simt::load(x + i)), b)));
  }
}

template <class From, class To, class Op>
void map(const char* name, int64_t n, const void* x, const void* x2, void* y, Op op, Stream stream) {
  constexpr int64_t kPerBlock = kThreads * kPerThread<From, To>;
  const simt::Launch l{
      .grid = {(n + kPerBlock - 1) / kPerBlock}, .block = kThreads, .stream = stream, .name = name};
  simt::launch(map_kernel<From, To, Op>, l, n, static_cast<const From*>(x), static_cast<const From*>(x2),
               static_cast<To*>(y), op);
}

template <class Op>
void map_same(const char* name, DType dtype, int64_t n, const void* x, const void* x2, void* y, Op op,
              Stream stream) {
  with_float_type(dtype, [&](auto type) {
    using T = decltype(type);
    map<T, T>(name, n, x, x2, y, op, stream);
  });
}

struct Keep {
  __device__ float operator()(float a, float) const { return a; }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Times {
  float factor;
  __device__ float operator()(float a, float) const { return a * factor; }
};

__global__ void zero_kernel(int64_t bytes, unsigned char* y) {
  const int64_t first = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * 16;
  if (first + 16 <= bytes) {
    simt::store_vec<Cache::once>(reinterpret_cast<uint32_t*>(y + first), simt::Vec<uint32_t, 4>{});
  } else {
    for (int64_t i = first; i < bytes; ++i) simt::store(y + i, 0);
  }
}

}  // namespace

void cast(const Cast& a, Stream stream) {
  with_float_type(a.from, [&](auto from) {
    with_float_type(a.to, [&](auto to) {
      map<decltype(from), decltype(to)>("cast", a.n, a.x, nullptr, a.y, Keep{}, stream);
    });
  });
}

void add(const Add& a, Stream stream) { map_same("add", a.dtype, a.n, a.a, a.b, a.y, Sum{}, stream); }

void scale(const Scale& a, Stream stream) {
  map_same("scale", a.dtype, a.n, a.x, nullptr, a.y, Times{a.factor}, stream);
}

void zero(const Zero& a, Stream stream) {
  const simt::Launch l{.grid = {(a.bytes + kThreads * 16 - 1) / (kThreads * 16)},
                       .block = kThreads,
                       .stream = stream,
                       .name = "zero"};
  simt::launch(zero_kernel, l, a.bytes, static_cast<unsigned char*>(a.y));
}

}  // namespace genesis::cuda
