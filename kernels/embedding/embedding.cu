// Memory-bound. Forward: a warp copies a row. Backward, deterministic without atomics on floats: the tokens
// are sorted, then each row of the gradient is read once and each row of the table that has a token is read
// and written once. More than 8,192 rows are taken in batches of so many, one after another, and a token's
// row of the table is read and written once for each batch that has it. N rows in n batches so move at most
// 8 D min(N, n V) bytes of it, where one sort of all would move 8 D min(N, V).
#include <string>

#include "kernels/common/block_count.h"
#include "kernels/embedding/embedding.h"
#include "kernels/ptx/ptx.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::kVec;
using simt::kWarpSize;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;

template <class T, int N>
__global__ void __launch_bounds__(kThreads) embedding_forward_kernel(EmbeddingForward a) {
  const int64_t row = int64_t(blockIdx.x) * kWarps + simt::warp();
  if (row >= a.rows) return;
  const T* from = static_cast<const T*>(a.table) + int64_t(simt::load(a.tokens + row)) * a.D;
  T* to = static_cast<T*>(a.y) + row * a.D;
#pragma unroll 4
  for (int64_t i = simt::lane() * N; i < a.D; i += kWarpSize * N) {
    simt::store_vec(to + i, simt::load_vec<N>(from + i));
  }
}

// The backward pass takes the rows in batches, each sorted by one block: a batch's keys, token and row in one
// word, fit its shared memory. More rows than one batch are added batch after batch.
constexpr int kRowBits = 13, kBatch = 1 << kRowBits;
constexpr int64_t kLargestVocabulary = int64_t(1) << (32 - kRowBits);

__device__ inline uint32_t token_of(uint32_t key) { return key >> kRowBits; }
__device__ inline int row_of(uint32_t key) { return int(key % kBatch); }

constexpr int kSortThreads = 1024;

struct SortPlan {
  uint32_t keys[kBatch];
};

// Key i's place: of 64 keys the second half is mirrored, so that no two of a round's 32 accesses, which skip
// every other run of 1 to 16 keys, meet in a bank.
__device__ inline uint32_t* place(SortPlan& plan, int i) { return &plan.keys[i ^ ((i >> 5 & 1) * 31)]; }

// Bitonic sort (Batcher 1968) of `size` keys, a power of two.
__device__ inline void sort(SortPlan& plan, int size) {
  for (int run = 2; run <= size; run *= 2) {
    for (int gap = run / 2; gap > 0; gap /= 2) {
      for (int pair = int(threadIdx.x); pair < size / 2; pair += kSortThreads) {
        const int i = pair + (pair & ~(gap - 1));
        uint32_t *first = place(plan, i), *second = place(plan, i + gap);
        const uint32_t a = simt::load(first), b = simt::load(second);
        const bool upwards = (i & run) == 0;
        if ((a > b) == upwards) {
          simt::store(first, b);
          simt::store(second, a);
        }
      }
      simt::sync_threads();
    }
  }
}

// keys: [rows], each batch's in order.
__global__ void __launch_bounds__(kSortThreads)
    embedding_sort_kernel(int64_t rows, const int32_t* tokens, uint32_t* keys) {
  auto& plan = simt::shared<SortPlan>();
  const int64_t begin = int64_t(blockIdx.x) * kBatch;
  const int count = rows - begin < kBatch ? int(rows - begin) : kBatch;
  int size = 2 * kWarpSize;
  while (size < count) size *= 2;
  for (int i = int(threadIdx.x); i < size; i += kSortThreads) {
    const uint32_t key = i < count ? uint32_t(simt::load(tokens + begin + i)) << kRowBits | uint32_t(i) : ~0u;
    simt::store(place(plan, i), key);
  }
  simt::sync_threads();
  sort(plan, size);
  for (int i = int(threadIdx.x); i < count; i += kSortThreads) {
    simt::store(keys + begin + i, simt::load(place(plan, i)));
  }
}

// One batch, sorted.
template <class T>
struct Batch {
  const uint32_t* keys;  // [count]
  int count;
  int64_t first_column, D;
  const T* dy;     // [count, D]
  float* d_table;  // [V, D]

  __device__ uint32_t key(int i) const { return i < count ? simt::load(keys + i) : ~0u; }
};

// A lane's eight columns of a warp's tile, of which `width` exist: in accesses of 16 bytes as simt::load_tile has
// them, the halves not yet swapped;
template <class T>
struct WholeTile {
  static constexpr int kAtOnce = 8;  // rows that are under way together
  simt::Packed<T> parts[8 / kVec<T>];

  // Zeros unless it is there.
  __device__ void load(bool there, const T* tile, int) {
#pragma unroll
    for (int p = 0; p < 8 / kVec<T>; ++p) {
      const int at = sizeof(T) == 2 ? simt::eight_of_lane() : (p * kWarpSize + simt::lane()) * kVec<T>;
      parts[p].load_if(there, tile + at);
    }
  }
  __device__ float operator[](int j) const { return parts[j / kVec<T>][j % kVec<T>]; }

  // tile += sum, which is used up.
  static __device__ void add(float* tile, int, float (&sum)[8]) {
    if constexpr (sizeof(T) == 2) simt::swap_halves(sum);
    float x[8];
    simt::load_tile(x, tile);
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] += sum[j];
    simt::store_tile(tile, x);
  }
};

// or one by one: a row's last tile, and widths that those accesses do not divide.
template <class T>
struct PartTile {
  static constexpr int kAtOnce = 2;
  float x[8] = {};

  // Calls body(j, column) for the lane's columns.
  template <class Body>
  static __device__ void for_columns(int width, const Body& body) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (j * kWarpSize + simt::lane() < width) body(j, j * kWarpSize + simt::lane());
    }
  }
  __device__ void load(bool there, const T* tile, int width) {
    for_columns(there ? width : 0, [&](int j, int column) { x[j] = float(simt::load(tile + column)); });
  }
  __device__ float operator[](int j) const { return x[j]; }

  static __device__ void add(float* tile, int width, float (&sum)[8]) {
    for_columns(width,
                [&](int j, int column) { simt::store(tile + column, simt::load(tile + column) + sum[j]); });
  }
};

// A warp takes the tokens that begin among 32 sorted keys, on one tile of columns. A token's rows are added in
// order, eight of them under way together: so that the hundreds of rows of text's most frequent token do not
// outlast the others' bytes. Told of no blocks a multiprocessor, ptxas saves registers and lets a row wait for another.
template <class T, template <class> class Tile>
__global__ void __launch_bounds__(kThreads, 4) embedding_backward_kernel(Batch<T> b) {
  constexpr int kAtOnce = Tile<T>::kAtOnce;
  const int first = (int(blockIdx.x) * kWarps + simt::warp()) * kWarpSize, mine = first + simt::lane();
  const int64_t column = b.first_column + int64_t(blockIdx.y) * simt::kWarpTile;
  const int width = b.D - column < simt::kWarpTile ? int(b.D - column) : simt::kWarpTile;
  const uint32_t own = b.key(mine);
  uint32_t before = simt::shuffle_up(own, 1);
  if (simt::lane() == 0) before = mine == 0 ? ~own : b.key(mine - 1);
  uint32_t begins = simt::ballot(mine < b.count && token_of(own) != token_of(before));
  for (; begins; begins &= begins - 1) {
    int at = ptx::trailing_zeros(begins), window = first;
    const uint32_t token = token_of(simt::shuffle(own, at));
    uint32_t keys = own;
    float sum[8] = {};
    for (bool more = true; more;) {
      const int left =
          ptx::trailing_ones(simt::ballot(token_of(keys) == token) >> at);  // of its rows, in the window
      int row[kAtOnce];
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) row[r] = row_of(simt::shuffle(keys, at + r));
      Tile<T> rows[kAtOnce];
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) rows[r].load(r < left, b.dy + row[r] * b.D + column, width);
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[j] += rows[r][j];
      }
      at += left < kAtOnce ? left : kAtOnce;
      more = left > kAtOnce || at == kWarpSize;
      if (at == kWarpSize) {
        at = 0;
        window += kWarpSize;
        more = window < b.count;  // what is past the end looks like the rows of a token that there is none of
        keys = b.key(window + simt::lane());
      }
    }
    Tile<T>::add(b.d_table + int64_t(token) * b.D + column, width, sum);
  }
}

template <class T, int N>
void forward(const EmbeddingForward& a, Stream stream) {
  simt::launch(embedding_forward_kernel<T, N>,
               {{block_count(a.rows, kWarps)}, kThreads, 0, stream, "embedding_forward"}, a);
}

// Batch after batch: whole tiles of columns, then the rest.
template <class T>
void backward(const EmbeddingBackward& a, Stream stream) {
  const auto* keys = static_cast<const uint32_t*>(a.workspace);
  const int64_t whole = a.D % kVec<T> == 0 ? a.D / simt::kWarpTile : 0, rest = a.D - whole * simt::kWarpTile;
  for (int64_t begin = 0; begin < a.rows; begin += kBatch) {
    const int count = int(a.rows - begin < kBatch ? a.rows - begin : kBatch);
    Batch<T> b = {keys + begin, count, 0, a.D, static_cast<const T*>(a.dy) + begin * a.D, a.d_table};
    const auto launch = [&](auto kernel, int64_t tiles) {
      simt::launch(kernel, {{block_count(count, kThreads), tiles}, kThreads, 0, stream, "embedding_backward"},
                   b);
    };
    launch(embedding_backward_kernel<T, WholeTile>, whole);
    b.first_column = whole * simt::kWarpTile;
    launch(embedding_backward_kernel<T, PartTile>, block_count(rest, simt::kWarpTile));
  }
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
  check(a.V < kLargestVocabulary, "embedding_backward: expected fewer than " +
                                      std::to_string(kLargestVocabulary) +
                                      " tokens in the vocabulary, found " + std::to_string(a.V));
  simt::launch(embedding_sort_kernel,
               {{block_count(a.rows, kBatch)}, kSortThreads, sizeof(SortPlan), stream, "embedding_sort"},
               a.rows, a.tokens, static_cast<uint32_t*>(a.workspace));
  a.dtype == DType::bf16 ? backward<bf16>(a, stream) : backward<float>(a, stream);
}

size_t embedding_backward_workspace(int64_t rows, int64_t) { return size_t(rows) * sizeof(uint32_t); }

}  // namespace genesis::cuda
