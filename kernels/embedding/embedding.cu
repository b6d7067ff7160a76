// Memory-bound. Forward: a warp copies a row. Backward, deterministic without sorting or atomics: the block
// of a row looks for its token among the rows before; if it is there, an earlier block does the work,
// otherwise this one adds up all rows of that token, in order. The search reads the tokens rows^2 / 2 times
// in all: for 8,192 rows 134 MB out of L2, some 30 us on an RTX 4090, against 46 us for the gradient's own
// bytes at D = 1536.
#include "kernels/embedding/embedding.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::kVec;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / simt::kWarpSize;

template <class T, int N>
__global__ void __launch_bounds__(kThreads) embedding_forward_kernel(EmbeddingForward a) {
  const int64_t row = int64_t(blockIdx.x) * kWarps + simt::warp();
  if (row >= a.rows) return;
  const T* from = static_cast<const T*>(a.table) + int64_t(simt::load(a.tokens + row)) * a.D;
  T* to = static_cast<T*>(a.y) + row * a.D;
  for (int64_t i = simt::lane() * N; i < a.D; i += simt::kWarpSize * N) {
    simt::store_vec(to + i, simt::load_vec<N>(from + i));
  }
}

// Whether `token` is among tokens [0, rows). The same answer for all lanes of a warp.
__device__ inline bool seen_before(const int32_t* tokens, int64_t rows, int32_t token) {
  for (int64_t first = 0; first < rows; first += simt::kWarpSize) {
    const int64_t i = first + simt::lane();
    if (simt::any(i < rows && simt::load(tokens + (i < rows ? i : 0)) == token)) return true;
  }
  return false;
}

// A warp takes one row and, in blockIdx.y, a part of the width.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) embedding_backward_kernel(EmbeddingBackward a) {
  const int64_t row = int64_t(blockIdx.x) * kWarps + simt::warp();
  if (row >= a.rows) return;
  const int32_t token = simt::load(a.tokens + row);
  if (seen_before(a.tokens, row, token)) return;
  const int64_t column = (int64_t(blockIdx.y) * simt::kWarpSize + simt::lane()) * N;
  const bool inside = column < a.D;
  float sum[N] = {};
  if (inside) simt::load_floats(sum, a.d_table + token * a.D + column);
  for (int64_t first = row; first < a.rows; first += simt::kWarpSize) {
    const int64_t i = first + simt::lane();
    uint32_t same = simt::ballot(i < a.rows && simt::load(a.tokens + (i < a.rows ? i : row)) == token);
    for (int offset = 0; same != 0; ++offset, same >>= 1) {
      if ((same & 1u) == 0 || !inside) continue;
      float dy[N];
      simt::load_floats(dy, static_cast<const T*>(a.dy) + (first + offset) * a.D + column);
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += dy[j];
    }
  }
  if (inside) simt::store_floats(a.d_table + token * a.D + column, sum);
}

int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

template <class T, int N>
void forward(const EmbeddingForward& a, Stream stream) {
  simt::launch(embedding_forward_kernel<T, N>,
               {{blocks_of(a.rows, kWarps)}, kThreads, 0, stream, "embedding_forward"}, a);
}

template <class T, int N>
void backward(const EmbeddingBackward& a, Stream stream) {
  const simt::Grid grid{blocks_of(a.rows, kWarps), blocks_of(a.D, simt::kWarpSize * N)};
  simt::launch(embedding_backward_kernel<T, N>, {grid, kThreads, 0, stream, "embedding_backward"}, a);
}

}  // namespace

void embedding_forward(const EmbeddingForward& a, Stream stream) {
  check(a.dtype != DType::i32, "embedding_forward: expected f32 or bf16");
  if (a.dtype == DType::bf16) {
    a.D % 8 == 0 ? forward<bf16, 8>(a, stream) : forward<bf16, 1>(a, stream);
  } else {
    a.D % 4 == 0 ? forward<float, 4>(a, stream) : forward<float, 1>(a, stream);
  }
}

void embedding_backward(const EmbeddingBackward& a, Stream stream) {
  check(a.dtype != DType::i32, "embedding_backward: expected f32 or bf16");
  if (a.dtype == DType::bf16) {
    a.D % 4 == 0 ? backward<bf16, 4>(a, stream) : backward<bf16, 1>(a, stream);
  } else {
    a.D % 4 == 0 ? backward<float, 4>(a, stream) : backward<float, 1>(a, stream);
  }
}

size_t embedding_backward_workspace(int64_t, int64_t) { return 0; }

}  // namespace genesis::cuda
