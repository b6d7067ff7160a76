// Memory-bound: each array is read or written once, in 16 bytes an access.
#include <initializer_list>

#include "kernels/common/block_count.h"
#include "kernels/common/dispatch.h"
#include "kernels/muon/muon.h"
#include "kernels/simt/block_sum.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::Cache;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / simt::kWarpSize;
// Of a block, which reads the step's settings once: 128 KB of fp32.
constexpr int64_t kChunk = 32768;

// Calls tile(i) for whole tiles of the elements from begin to end, and element(i) for what is left; for all of
// them where tiles can't be moved in 16 bytes.
template <class Tile, class Element>
__device__ inline void for_tiles(int64_t begin, int64_t end, bool aligned, const Tile& tile,
                                 const Element& element) {
  for (int64_t i = begin + simt::warp() * simt::kWarpTile; i < end; i += kWarps * simt::kWarpTile) {
    if (aligned && i + simt::kWarpTile <= end) {
      tile(i);
    } else {
      const int64_t last = i + simt::kWarpTile < end ? i + simt::kWarpTile : end;
#pragma unroll 1
      for (int64_t j = i + simt::lane(); j < last; j += simt::kWarpSize) element(j);
    }
  }
}

// The same for the block's chunk of n elements.
template <class Tile, class Element>
__device__ inline void for_chunk(int64_t n, bool aligned, const Tile& tile, const Element& element) {
  const int64_t begin = int64_t(blockIdx.x) * kChunk, end = begin + kChunk < n ? begin + kChunk : n;
  for_tiles(begin, end, aligned, tile, element);
}

struct Momentum {
  float beta, scale;

  __device__ float next(float grad, float m) const { return beta * m + (1.f - beta) * (scale * grad); }
  __device__ float nesterov(float grad, float m) const { return (1.f - beta) * (scale * grad) + beta * m; }
};

__global__ void __launch_bounds__(kThreads) muon_momentum_kernel(MuonMomentum a, bool aligned) {
  auto& plan = simt::shared<simt::BlockSum<kWarps>>();
  const Momentum momentum{a.beta, simt::load(a.norm_and_scale + 1)};
  float squares = 0.f;
  if (simt::is_finite(momentum.scale)) {
    for_chunk(
        a.n, aligned,
        [&](int64_t i) {
          float grad[8], m[8];
          simt::load_tile<Cache::once>(grad, a.grad + i);
          simt::load_tile(m, a.m + i);
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            m[j] = momentum.next(grad[j], m[j]);
            const float u = momentum.nesterov(grad[j], m[j]);
            squares += u * u;
          }
          simt::store_tile(a.m + i, m);
        },
        [&](int64_t i) {
          const float grad = simt::load(a.grad + i), m = momentum.next(grad, simt::load(a.m + i));
          const float u = momentum.nesterov(grad, m);
          squares += u * u;
          simt::store(a.m + i, m);
        });
  }
  const float sum = simt::block_sum(plan, squares);
  if (threadIdx.x == 0) simt::store(static_cast<float*>(a.workspace) + blockIdx.x, sum);
}

// One warp: the chunks' sums, in their order.
__global__ void __launch_bounds__(simt::kWarpSize)
    muon_norm_kernel(const float* partials, int64_t count, float* norm) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double(simt::load(partials + i));
  if (simt::lane() == 0) simt::store(norm, float(sqrt(sum)));
}

template <class T>
__global__ void __launch_bounds__(kThreads) muon_normalize_kernel(MuonNormalize a, bool aligned) {
  const Momentum momentum{a.beta, simt::load(a.norm_and_scale + 1)};
  const float norm = simt::load(a.norm);
  const float factor = 1.f / (a.margin * (norm > kMuonLeastNorm ? norm : kMuonLeastNorm));
  const bool finite = simt::is_finite(momentum.scale);
  T* x = static_cast<T*>(a.x);
  for_chunk(
      a.n, aligned,
      [&](int64_t i) {
        float grad[8], m[8];
        simt::load_tile<Cache::once>(grad, a.grad + i);
        simt::load_tile<Cache::once>(m, a.m + i);
#pragma unroll
        for (int j = 0; j < 8; ++j) m[j] = finite ? factor * momentum.nesterov(grad[j], m[j]) : 0.f;
        simt::store_tile(x + i, m);
      },
      [&](int64_t i) {
        const float u = momentum.nesterov(simt::load(a.grad + i), simt::load(a.m + i));
        simt::store(x + i, T(finite ? factor * u : 0.f));
      });
}

// A block a row.
template <class T>
__global__ void __launch_bounds__(kThreads) muon_polynomial_kernel(MuonPolynomial a, bool aligned) {
  const int64_t row = blockIdx.x, first = row * a.rows, diagonal = first + row;
  const T* gram = static_cast<const T*>(a.gram);
  T* y = static_cast<T*>(a.y);
  for_tiles(
      first, first + a.rows, aligned,
      [&](int64_t i) {
        float A[8], square[8];
        simt::load_tile(A, gram + i);
        simt::load_tile<Cache::once>(square, a.square + i);
        const int64_t own = diagonal - i - simt::lane() * 4;  // of the lane's two fours
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int at = j < 4 ? j : simt::kWarpTile / 2 + j - 4;
          A[j] = a.p.b * A[j] + a.p.c * square[j] + (own == at ? a.p.a : 0.f);
        }
        simt::store_tile(y + i, A);
      },
      [&](int64_t i) {
        const float sum = a.p.b * float(simt::load(gram + i)) + a.p.c * simt::load(a.square + i);
        simt::store(y + i, T(sum + (i == diagonal ? a.p.a : 0.f)));
      });
}

struct Update {
  float lr, factor, weight_decay;

  __device__ float operator()(float x, float master) const {
    return master - lr * (factor * x + weight_decay * master);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) muon_update_kernel(MuonUpdate a, bool aligned) {
  if (!simt::is_finite(simt::load(a.norm_and_scale + 1))) return;
  const Update update{simt::load(&a.step->lr), a.factor, a.weight_decay};
  const T* x = static_cast<const T*>(a.x);
  bf16* copy = static_cast<bf16*>(a.copy);
  for_chunk(
      a.n, aligned,
      [&](int64_t i) {
        float step[8], master[8];
        simt::load_tile<Cache::once>(step, x + i);
        simt::load_tile(master, a.master + i);
#pragma unroll
        for (int j = 0; j < 8; ++j) master[j] = update(step[j], master[j]);
        simt::store_tile<Cache::once>(a.master + i, master);
        if (copy) simt::store_tile(copy + i, master);
      },
      [&](int64_t i) {
        const float master = update(float(simt::load(x + i)), simt::load(a.master + i));
        simt::store(a.master + i, master);
        if (copy) simt::store(copy + i, bf16(master));
      });
}

bool aligned(std::initializer_list<const void*> arrays) {
  for (const void* array : arrays) {
    if (reinterpret_cast<uintptr_t>(array) % 16 != 0) return false;
  }
  return true;
}

}  // namespace

size_t muon_momentum_workspace(int64_t n) { return size_t(block_count(n, kChunk)) * sizeof(float); }

void muon_momentum(const MuonMomentum& a, Stream stream) {
  const int64_t blocks = block_count(a.n, kChunk);
  simt::launch(muon_momentum_kernel,
               {{blocks}, kThreads, sizeof(simt::BlockSum<kWarps>), stream, "muon_momentum"}, a,
               aligned({a.grad, a.m}));
  simt::launch(muon_norm_kernel, {{1}, simt::kWarpSize, 0, stream, "muon_norm"},
               static_cast<const float*>(a.workspace), blocks, a.norm);
}

void muon_normalize(const MuonNormalize& a, Stream stream) {
  with_float_type(a.dtype, [&](auto type) {
    simt::launch(muon_normalize_kernel<decltype(type)>,
                 {{block_count(a.n, kChunk)}, kThreads, 0, stream, "muon_normalize"}, a,
                 aligned({a.grad, a.m, a.x}));
  });
}

void muon_polynomial(const MuonPolynomial& a, Stream stream) {
  with_float_type(a.dtype, [&](auto type) {
    simt::launch(muon_polynomial_kernel<decltype(type)>, {{a.rows}, kThreads, 0, stream, "muon_polynomial"},
                 a, a.rows % 8 == 0 && aligned({a.gram, a.square, a.y}));
  });
}

void muon_update(const MuonUpdate& a, Stream stream) {
  with_float_type(a.dtype, [&](auto type) {
    simt::launch(muon_update_kernel<decltype(type)>,
                 {{block_count(a.n, kChunk)}, kThreads, 0, stream, "muon_update"}, a,
                 aligned({a.x, a.master, a.copy}));
  });
}

}  // namespace genesis::cuda
