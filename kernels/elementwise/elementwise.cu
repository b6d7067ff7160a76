#include "kernels/elementwise/elementwise.h"

#include <algorithm>

#include "kernels/common/bf16.h"
#include "kernels/ptx/ptx.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::Cache;
using simt::Vec;

constexpr int kThreads = 256;

// Elements a thread takes: 16 bytes of the larger type, so that a warp's accesses are whole lines.
template <class From, class To>
constexpr int kPerThread = 16 / int(std::max(sizeof(From), sizeof(To)));

template <class T, int N>
constexpr Cache kCache = sizeof(T) * N == 16 ? Cache::once : Cache::normal;

template <int N>
__device__ inline void store_floats(float* p, const float (&x)[N]) {
  Vec<float, N> v;
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = x[i];
  simt::store_vec<kCache<float, N>>(p, v);
}

template <int N>
__device__ inline void store_floats(bf16* p, const float (&x)[N]) {
  Vec<uint32_t, N / 2> pairs;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) pairs[i] = ptx::pack_bf16(x[2 * i], x[2 * i + 1]);
  simt::store_vec<kCache<bf16, N>>(reinterpret_cast<uint32_t*>(p), pairs);
}

// y[i] = op(x[i], x2[i]); x2 is null for an op of one argument.
template <class From, class To, class Op>
__global__ void map_kernel(int64_t n, const From* x, const From* x2, To* y, Op op) {
  constexpr int N = kPerThread<From, To>;
  const int64_t first = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (first + N <= n) {
    const auto a = simt::load_vec<N, kCache<From, N>>(x + first);
    auto b = a;
    if (x2) b = simt::load_vec<N, kCache<From, N>>(x2 + first);
    float z[N];
#pragma unroll
    for (int i = 0; i < N; ++i) z[i] = op(float(a[i]), float(b[i]));
    store_floats(y + first, z);
    return;
  }
  for (int64_t i = first; i < n; ++i) {
    const float a = float(simt::load(x + i));
    simt::store(y + i, To(op(a, x2 ? float(simt::load(x2 + i)) : a)));
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
  check(dtype != DType::i32, std::string(name) + ": expected f32 or bf16");
  if (dtype == DType::bf16) {
    map<bf16, bf16>(name, n, x, x2, y, op, stream);
  } else {
    map<float, float>(name, n, x, x2, y, op, stream);
  }
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
    simt::store_vec<Cache::once>(reinterpret_cast<uint32_t*>(y + first), Vec<uint32_t, 4>{});
  } else {
    for (int64_t i = first; i < bytes; ++i) simt::store(y + i, 0);
  }
}

}  // namespace

void cast(const Cast& a, Stream stream) {
  if (a.from == a.to) return map_same("cast", a.to, a.n, a.x, nullptr, a.y, Keep{}, stream);
  if (a.from == DType::f32 && a.to == DType::bf16) {
    map<float, bf16>("cast", a.n, a.x, nullptr, a.y, Keep{}, stream);
  } else {
    check(a.from == DType::bf16 && a.to == DType::f32, "cast: expected f32 or bf16");
    map<bf16, float>("cast", a.n, a.x, nullptr, a.y, Keep{}, stream);
  }
}

void add(const Add& a, Stream stream) { map_same("add", a.dtype, a.n, a.a, a.b, a.y, Sum{}, stream); }

void scale(const Scale& a, Stream stream) {
  map_same("scale", a.dtype, a.n, a.x, nullptr, a.y, Times{a.factor}, stream);
}

void zero(const Zero& a, Stream stream) {
  const simt::Launch l{
      .grid = {(a.bytes + kThreads * 16 - 1) / (kThreads * 16)}, .block = kThreads, .stream = stream, .name = "zero"};
  simt::launch(zero_kernel, l, a.bytes, static_cast<unsigned char*>(a.y));
}

}  // namespace genesis::cuda
