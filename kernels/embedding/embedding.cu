// Memory-bound. Forward: a warp copies a row. Backward, deterministic without atomics on floats: the tokens
// are sorted, then each row of the gradient is read once and each row of the table that has a token is read
// and written once. More than 8,192 rows are taken in batches of so many, one after another, and a token's
// row of the table is read and written once for each batch that has it. N rows in n batches so move at most
// 8 D min(N, n V) bytes of it, where one sort of all would move 8 D min(N, V).
//
// Prediction for 8,192 rows of 1536 bf16 with 4,000 different tokens on an RTX 4090: 25 MB of dy and 2 x 25
// MB of the table at 911 GB/s, 81 us; the sort before it, by one block in shared memory, is 91 rounds of some
// 700 cycles, 25 us. Where all rows have one token, 6 multiprocessors read all of dy with 64 KB under way in
// each: 40 us.
#include <algorithm>
#include <string>

#include "kernels/common/block_count.h"
#include "kernels/embedding/embedding.h"
#include "kernels/ptx/ptx.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::kWarpSize;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;

template <class T, int N>
__global__ void __launch_bounds__(kThreads) embedding_forward_kernel(EmbeddingForward a) {
  const int64_t row = int64_t(blockIdx.x) * kWarps + simt::warp();
  if (row >= a.rows) return;
  const T* from = static_cast<const T*>(a.table) + int64_t(simt::load(a.tokens + row)) * a.D;
  T* to = static_cast<T*>(a.y) + row * a.D;
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

// A token with more rows than these is frequent: a block adds them up instead of a warp.
constexpr int kFewRows = kWarpSize;
// Every window of so many sorted keys holds the beginning of at most one frequent token. Blocks share the
// windows out in turns, since text's frequent tokens have low numbers and would all fall to one.
constexpr int kWindows = kBatch / kFewRows, kFrequentBlocks = 32, kWindowsABlock = kWindows / kFrequentBlocks;
__device__ inline int place_of_window(int window) {
  return window % kFrequentBlocks * kWindowsABlock + window / kFrequentBlocks;
}

struct Sorted {
  uint32_t* keys;     // [rows], each batch's in order
  int32_t* frequent;  // [batches, kWindows]: where in the batch a frequent token begins, or -1
};

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

__global__ void __launch_bounds__(kSortThreads)
    embedding_sort_kernel(int64_t rows, const int32_t* tokens, Sorted sorted) {
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
  for (int window = simt::warp(); window < kWindows; window += kSortThreads / kWarpSize) {
    const int i = window * kFewRows + simt::lane();
    const uint32_t key = i < count ? simt::load(place(plan, i)) : ~0u;
    if (i < count) simt::store(sorted.keys + begin + i, key);
    uint32_t before = simt::shuffle_up(key, 1);
    if (simt::lane() == 0) before = 0 < i && i < count ? simt::load(place(plan, i - 1)) : ~key;
    const bool frequent = token_of(key) != token_of(before) && i + kFewRows < count &&
                          token_of(simt::load(place(plan, i + kFewRows))) == token_of(key);
    const uint32_t found = simt::ballot(frequent);
    if (simt::lane() == 0) {
      simt::store(sorted.frequent + int64_t(blockIdx.x) * kWindows + place_of_window(window),
                  found ? window * kFewRows + ptx::trailing_zeros(found) : -1);
    }
  }
}

// One batch, sorted.
template <class T>
struct Batch {
  const uint32_t* keys;     // [count]
  const int32_t* frequent;  // [kWindows]
  int count;
  int64_t D;
  const T* dy;     // [count, D]
  float* d_table;  // [V, D]
};

// The lane's eight columns of a warp's tile of a row. wide: in accesses of 16 bytes, as simt::load_tile has
// them; else one by one, for widths that those do not divide.
template <class T, bool wide>
struct Columns {
  static constexpr bool kEights = wide && sizeof(T) == 2;
  int64_t tile, D;

  // Calls body(j, column) for each access, which takes N columns that belong to x[j] and on.
  template <int N, class Body>
  __device__ void for_accesses(const Body& body) const {
#pragma unroll
    for (int j = 0; j < 8; j += N) {
      const int lane_at = N == 8 ? simt::eight_of_lane() : j * kWarpSize + simt::lane() * N;
      if (tile + lane_at < D) body(j, tile + lane_at);
    }
  }

  // sum += the rows that row_of_batch(0 .. rows - 1) name, in order; kAtOnce loads are under way together.
  template <int kAtOnce, class Row>
  __device__ void add_rows(float (&sum)[8], const T* dy, int rows, const Row& row_of_batch) const {
    constexpr int N = kEights ? 8 : wide ? 4 : 1;
    for (int first = 0; first < rows; first += kAtOnce) {
      simt::Vec<T, N> x[kAtOnce][8 / N] = {};
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        if (first + r >= rows) continue;
        const T* row = dy + row_of_batch(first + r) * D;
        for_accesses<N>([&](int j, int64_t column) { x[r][j / N] = simt::load_vec<N>(row + column); });
      }
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[j] += float(x[r][j / N][j % N]);
      }
    }
  }

  // row += sum, which is used up.
  __device__ void add_to(float* row, float (&sum)[8]) const {
    if constexpr (kEights) simt::swap_halves(sum);
    constexpr int N = wide ? 4 : 1;
    for_accesses<N>([&](int j, int64_t column) {
      float x[N];
      simt::load_floats(x, row + column);
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] += sum[j + i];
      simt::store_floats(row + column, x);
    });
  }
};

constexpr int kMostWarps = 8;

// The tokens that begin among 32 sorted keys, but the frequent ones. A warp takes them all, on its columns.
template <class T, bool wide>
__global__ void __launch_bounds__(kMostWarps* kWarpSize) embedding_backward_kernel(Batch<T> b) {
  const int first = int(blockIdx.x) * kWarpSize, mine = first + simt::lane(), next = mine + kWarpSize;
  const uint32_t key = mine < b.count ? simt::load(b.keys + mine) : ~0u;
  const uint32_t next_key = next < b.count ? simt::load(b.keys + next) : ~0u;
  uint32_t before = simt::shuffle_up(key, 1);
  if (simt::lane() == 0) before = first > 0 ? simt::load(b.keys + first - 1) : ~key;
  const uint32_t begins = simt::ballot(mine < b.count && token_of(key) != token_of(before));
  for (int64_t tile = simt::warp() * simt::kWarpTile; tile < b.D;
       tile += blockDim.x / kWarpSize * simt::kWarpTile) {
    const Columns<T, wide> columns{tile, b.D};
    for (uint32_t left = begins; left; left &= left - 1) {
      const int start = ptx::trailing_zeros(left);
      const uint32_t token = token_of(simt::shuffle(key, start));
      const int rows = ptx::trailing_ones(simt::ballot(token_of(key) == token) >> start) +
                       ptx::trailing_ones(simt::ballot(token_of(next_key) == token));
      if (rows > kFewRows) continue;
      float sum[8] = {};
      columns.template add_rows<4>(sum, b.dy, rows, [&](int i) {
        const int at = start + i;
        return row_of(at < kWarpSize ? simt::shuffle(key, at) : simt::shuffle(next_key, at - kWarpSize));
      });
      columns.add_to(b.d_table + int64_t(token) * b.D, sum);
    }
  }
}

constexpr int kFrequentWarps = 16;

struct FrequentPlan {
  float sums[kFrequentWarps][simt::kWarpTile];
};

// A block's frequent tokens on one tile of columns. The warps take 32 rows in turn; their sums are added in
// order.
template <class T, bool wide>
__global__ void __launch_bounds__(kFrequentWarps* kWarpSize) embedding_frequent_kernel(Batch<T> b) {
  auto& plan = simt::shared<FrequentPlan>();
  const Columns<T, wide> columns{int64_t(blockIdx.y) * simt::kWarpTile, b.D};
  const int found = simt::lane() < kWindowsABlock
                        ? simt::load(b.frequent + int(blockIdx.x) * kWindowsABlock + simt::lane())
                        : -1;
  for (uint32_t left = simt::ballot(found >= 0); left; left &= left - 1) {
    const int start = simt::shuffle(found, ptx::trailing_zeros(left));
    const uint32_t token = token_of(simt::load(b.keys + start));
    float sum[8] = {};
    for (int first = start + simt::warp() * kWarpSize; first < b.count; first += kFrequentWarps * kWarpSize) {
      const int mine = first + simt::lane();
      const uint32_t key = mine < b.count ? simt::load(b.keys + mine) : ~0u;
      const int rows = ptx::trailing_ones(simt::ballot(token_of(key) == token));
      columns.template add_rows<8>(sum, b.dy, rows, [&](int i) { return row_of(simt::shuffle(key, i)); });
      if (rows < kWarpSize) break;
    }
    for (int j = 0; j < 8; ++j) simt::store(&plan.sums[simt::warp()][j * kWarpSize + simt::lane()], sum[j]);
    simt::sync_threads();
    if (simt::warp() == 0) {
      for (int w = 1; w < kFrequentWarps; ++w) {
        for (int j = 0; j < 8; ++j) sum[j] += simt::load(&plan.sums[w][j * kWarpSize + simt::lane()]);
      }
      columns.add_to(b.d_table + int64_t(token) * b.D, sum);
    }
    simt::sync_threads();
  }
}

template <class T, int N>
void forward(const EmbeddingForward& a, Stream stream) {
  simt::launch(embedding_forward_kernel<T, N>,
               {{block_count(a.rows, kWarps)}, kThreads, 0, stream, "embedding_forward"}, a);
}

template <class T, bool wide>
void backward(const EmbeddingBackward& a, const Sorted& sorted, Stream stream) {
  const int64_t tiles = block_count(a.D, simt::kWarpTile);
  const int warps = int(std::min<int64_t>(tiles, kMostWarps));
  for (int64_t begin = 0; begin < a.rows; begin += kBatch) {
    const Batch<T> b = {sorted.keys + begin,
                        sorted.frequent + begin / kBatch * kWindows,
                        int(std::min<int64_t>(a.rows - begin, kBatch)),
                        a.D,
                        static_cast<const T*>(a.dy) + begin * a.D,
                        a.d_table};
    simt::launch(embedding_backward_kernel<T, wide>,
                 {{block_count(b.count, kWarpSize)}, warps * kWarpSize, 0, stream, "embedding_backward"}, b);
    simt::launch(embedding_frequent_kernel<T, wide>,
                 {{kFrequentBlocks, tiles},
                  kFrequentWarps * kWarpSize,
                  sizeof(FrequentPlan),
                  stream,
                  "embedding_frequent"},
                 b);
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
  const Sorted sorted = {static_cast<uint32_t*>(a.workspace), static_cast<int32_t*>(a.workspace) + a.rows};
  simt::launch(embedding_sort_kernel,
               {{block_count(a.rows, kBatch)}, kSortThreads, sizeof(SortPlan), stream, "embedding_sort"},
               a.rows, a.tokens, sorted);
  if (a.dtype == DType::bf16) {
    a.D % 8 == 0 ? backward<bf16, true>(a, sorted, stream) : backward<bf16, false>(a, sorted, stream);
  } else {
    a.D % 4 == 0 ? backward<float, true>(a, sorted, stream) : backward<float, false>(a, sorted, stream);
  }
}

size_t embedding_backward_workspace(int64_t rows, int64_t) {
  return size_t(rows + block_count(rows, kBatch) * kWindows) * sizeof(int32_t);
}

}  // namespace genesis::cuda
