// Memory-bound. A warp takes a row at a time and keeps it in registers, so every input is read once and
// waited for once; blocks stay for many rows, so the weight is read once a block, into shared memory.
#include <algorithm>

#include "kernels/common/block_count.h"
#include "kernels/common/dispatch.h"
#include "kernels/ptx/ptx.h"
#include "kernels/rmsnorm/rmsnorm_cuda.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::kVec;
using simt::kWarpSize;

constexpr int kWarps = kNormWarps;
constexpr int kThreads = kWarps * kWarpSize;
// All of a row's loads are under way before the first is waited for: of a bf16 row of 2,048 a warp has 8 KB forward
// and 12 KB backward in flight (tests/kernels_limits/memory_code_test.cpp). What a block reads and writes for
// itself (the weight; backward also its part of the weight's gradient, and that again) is 1.6% and 2.0% of
// the bytes of 8192 rows, so there are no more blocks than keep the memory busy.

// Elements of a row that the lanes hold together: `Pieces` accesses of 16 bytes each.
template <class T, int Pieces>
constexpr int kWidth = Pieces* kWarpSize* kVec<T>;

// Where the lane's part of piece p begins.
template <class T>
__device__ inline int column_of(int p) {
  return (p * kWarpSize + simt::lane()) * kVec<T>;
}

// The lane's part of a row, as stored: in fp32 a row of 2,048 would not fit the registers.
template <class T, int Pieces>
struct Row {
  simt::Packed<T> pieces[Pieces];

  // Of the first `end` columns; the others are zero.
  __device__ void load(const T* row, int end) {
#pragma unroll
    for (int p = 0; p < Pieces; ++p) pieces[p].load_if(column_of<T>(p) < end, row + column_of<T>(p));
  }
};

template <class T, int Pieces>
struct Weight {
  T weight[kWidth<T, Pieces>];  // past D: zeros
};

template <class T, int Pieces>
__device__ inline void load_weight(Weight<T, Pieces>& plan, const T* weight, int D) {
#pragma unroll 1
  for (int i = int(threadIdx.x) * kVec<T>; i < kWidth<T, Pieces>; i += kThreads * kVec<T>) {
    simt::Packed<T> w;
    w.load_if(i < D, weight + i);
    simt::store_vec<simt::Cache::none>(reinterpret_cast<uint32_t*>(&plan.weight[i]), w.words);
  }
  simt::sync_threads();
}

// Where a warp's first group of rows begins, and how far on its next one does.
__device__ inline int first_row(int group) { return (int(blockIdx.x) * kWarps + simt::warp()) * group; }
__device__ inline int rows_in_turn(int group) { return int(gridDim.x) * kWarps * group; }

// A row's y, from its h; forward, and backward again.
template <class T>
__device__ inline void store_y(T* y, const simt::Packed<T>& h, float rstd, const simt::Packed<T>& w) {
  float out[kVec<T>];
#pragma unroll
  for (int i = 0; i < kVec<T>; ++i) out[i] = h[i] * (rstd * w[i]);
  simt::store_floats(y, out);
}

// A row's h and y; returns its 1/rms.
template <class T, int Pieces>
__device__ inline float forward_row(const RmsNormForward& a, const Weight<T, Pieces>& plan, int row) {
  constexpr int N = kVec<T>;
  const int D = int(a.D);
  Row<T, Pieces> h;
  h.load(static_cast<const T*>(a.x) + int64_t(row) * D, D);
  if (a.residual) {
    Row<T, Pieces> residual;
    residual.load(static_cast<const T*>(a.residual) + int64_t(row) * D, D);
#pragma unroll
    for (int p = 0; p < Pieces; ++p) {
      float sum[N];
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] = h.pieces[p][i] + residual.pieces[p][i];
      h.pieces[p].set(sum);
    }
  }
  float squares = 0.f;
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
#pragma unroll
    for (int i = 0; i < N; ++i) squares += h.pieces[p][i] * h.pieces[p][i];
  }
  const float rstd = 1.f / sqrtf(simt::warp_sum(squares) / float(D) + a.eps);
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
    const int column = column_of<T>(p);
    if (column >= D) continue;
    if (a.h) h.pieces[p].store_to(static_cast<T*>(a.h) + int64_t(row) * D + column);
    const auto w = simt::Packed<T>::load(&plan.weight[column]);
    store_y(static_cast<T*>(a.y) + int64_t(row) * D + column, h.pieces[p], rstd, w);
  }
  return rstd;
}

// Warps take `group` rows at a time, at most 32, so that the rows' 1/rms move together: alone each would cost
// a sector. Told nothing of the two blocks a multiprocessor, ptxas saves registers and lets a load wait for another.
template <class T, int Pieces>
__global__ void __launch_bounds__(kThreads, 2) rmsnorm_forward_kernel(RmsNormForward a, int group) {
  auto& plan = simt::shared<Weight<T, Pieces>>();
  load_weight<T, Pieces>(plan, static_cast<const T*>(a.weight), int(a.D));
  for (int first = first_row(group); first < int(a.rows); first += rows_in_turn(group)) {
    const int rows = first + group < int(a.rows) ? group : int(a.rows) - first;
    float own = 0.f;  // 1/rms of the row that the lane will store
    for (int i = 0; i < rows; ++i) {
      const float rstd = forward_row<T, Pieces>(a, plan, first + i);
      if (simt::lane() == i) own = rstd;
    }
    if (a.rstd && simt::lane() < rows) simt::store(a.rstd + first + simt::lane(), own);
  }
}

template <class T, int Pieces>
struct BackwardPlan : Weight<T, Pieces> {
  float d_weight[kWidth<T, Pieces>];  // columns in the order of place_of
  // A row's d_residual of each warp, on its way while the row is reduced: its registers have no room for it.
  // A lane reads what it copied itself.
  T d_residual[kWarps][kWidth<T, Pieces>];
};

// Where four columns from `column` on stand in BackwardPlan. A lane's eight columns are 32 bytes apart from
// the next lane's, so lanes 4 apart would meet in a bank: every second four lanes have their halves swapped.
__device__ inline int place_of(int column) { return column ^ (column >> 3 & 4); }

// One row's dh (and y), and its part of the weight's gradient added to the lane's columns.
template <class T, int Pieces>
__device__ inline void backward_row(const RmsNormBackward& a, BackwardPlan<T, Pieces>& plan, int row,
                                    float rstd, float (&d_weight)[Pieces][kVec<T>]) {
  constexpr int N = kVec<T>;
  const int D = int(a.D);
  T* d_residual = plan.d_residual[simt::warp()];
  Row<T, Pieces> dy, h;
  dy.load(static_cast<const T*>(a.dy) + int64_t(row) * D, D);
  h.load(static_cast<const T*>(a.h) + int64_t(row) * D, D);
  if (a.d_residual) {
    const T* from = static_cast<const T*>(a.d_residual) + int64_t(row) * D;
#pragma unroll
    for (int p = 0; p < Pieces; ++p) {
      const int column = column_of<T>(p);
      ptx::copy_async<16>(d_residual + column, from + column, column < D ? 16 : 0);
    }
    ptx::commit_copies();
  }
  float dot = 0.f;
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
    const auto w = simt::Packed<T>::load(&plan.weight[column_of<T>(p)]);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float d = dy.pieces[p][i], value = h.pieces[p][i];
      dot += d * w[i] * value;
      d_weight[p][i] += d * (value * rstd);
    }
  }
  const float mean = simt::warp_sum(dot) / float(D) * rstd * rstd;
  ptx::wait_copies<0>();
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
    const int column = column_of<T>(p);
    if (column >= D) continue;
    const auto w = simt::Packed<T>::load(&plan.weight[column]);
    simt::Packed<T> r = {};
    if (a.d_residual) r = simt::Packed<T>::load(d_residual + column);
    float out[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out[i] = rstd * (dy.pieces[p][i] * w[i] - h.pieces[p][i] * mean);
      if (a.d_residual) out[i] += r[i];
    }
    simt::store_floats(static_cast<T*>(a.dh) + int64_t(row) * D + column, out);
    if (a.y) store_y(static_cast<T*>(a.y) + int64_t(row) * D + column, h.pieces[p], rstd, w);
  }
}

// Adds a warp's columns to the block's sum, or begins it.
template <class T, int Pieces>
__device__ inline void add_columns(BackwardPlan<T, Pieces>& plan, const float (&d_weight)[Pieces][kVec<T>],
                                   bool add, int D) {
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
#pragma unroll
    for (int half = 0; half < kVec<T>; half += 4) {
      const int column = column_of<T>(p) + half;
      if (column >= D) continue;
      float* place = &plan.d_weight[place_of(column)];
      simt::Vec<float, 4> sum = add ? simt::load_vec<4>(place) : simt::Vec<float, 4>{};
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += d_weight[p][half + i];
      simt::store_vec<simt::Cache::none>(place, sum);
    }
  }
}

// An RTX 4090 gets one block a multiprocessor; cards with fewer of them put two on some, but for rows over 1,024
// bf16, which would spill there on sm_100 and sm_120.
template <class T, int Pieces>
__global__ void __launch_bounds__(kThreads, Pieces < 6 ? 2 : 1)
    rmsnorm_backward_kernel(RmsNormBackward a, int group) {
  auto& plan = simt::shared<BackwardPlan<T, Pieces>>();
  const int D = int(a.D);
  load_weight<T, Pieces>(plan, static_cast<const T*>(a.weight), D);
  float d_weight[Pieces][kVec<T>] = {};
  for (int first = first_row(group); first < int(a.rows); first += rows_in_turn(group)) {
    const int rows = first + group < int(a.rows) ? group : int(a.rows) - first;
    const float own = simt::lane() < rows ? simt::load(a.rstd + first + simt::lane()) : 0.f;
    for (int i = 0; i < rows; ++i) {
      backward_row<T, Pieces>(a, plan, first + i, simt::shuffle(own, i), d_weight);
    }
  }
  // The warps' sums, one warp after another, so that the order is fixed.
  for (int turn = 0; turn < kWarps; ++turn) {
    if (simt::warp() == turn) add_columns<T, Pieces>(plan, d_weight, turn > 0, D);
    simt::sync_threads();
  }
#pragma unroll 1
  for (int column = int(threadIdx.x) * 4; column < D; column += kThreads * 4) {
    simt::store_vec(static_cast<float*>(a.workspace) + int64_t(blockIdx.x) * D + column,
                    simt::load_vec<4>(&plan.d_weight[place_of(column)]));
  }
}

// d_weight += the blocks' sums. A block takes a strip of 8 accesses; its threads share the sums out among 32
// rows of 8 lanes, whose parts are added in order.
constexpr int kStrip = 8, kStripRows = kThreads / kStrip;

template <int N>
struct Strip {
  float rows[kStripRows][kStrip * N];
};

template <int N>
__global__ void __launch_bounds__(kThreads)
    rmsnorm_weight_kernel(int64_t D, int64_t blocks, const float* partials, float* d_weight) {
  auto& plan = simt::shared<Strip<N>>();
  const int lane = int(threadIdx.x) % kStrip, row = int(threadIdx.x) / kStrip;
  const int64_t column = (int64_t(blockIdx.x) * kStrip + lane) * N;
  float sum[N] = {}, part[N];
  const auto add = [&] {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += part[i];
  };
  for (int64_t b = row; b < blocks && column < D; b += kStripRows) {
    simt::load_floats(part, partials + b * D + column);
    add();
  }
  simt::store_floats<simt::Cache::none>(&plan.rows[row][lane * N], sum);
  simt::sync_threads();
  if (row > 0 || column >= D) return;
  for (int r = 1; r < kStripRows; ++r) {
    simt::load_floats(part, &plan.rows[r][lane * N]);
    add();
  }
  simt::load_floats(part, d_weight + column);
  add();
  simt::store_floats(d_weight + column, sum);
}

int64_t rows_blocks(int64_t rows, int64_t most) { return std::min(block_count(rows, kWarps), most); }
// Rows that a warp takes at a time: its share, if that is no more than it has lanes.
int rows_a_group(int64_t rows, int64_t blocks) {
  return int(std::min<int64_t>(block_count(rows, std::max<int64_t>(blocks, 1) * kWarps), kWarpSize));
}

template <class T>
bool for_warps(int64_t D) {
  return D % kVec<T> == 0 && D <= kWidth<T, 8>;
}
bool for_warps(DType dtype, int64_t rows, int64_t D) {
  require(rows < int64_t(1) << 30, "rmsnorm takes fewer than 2^30 rows");
  return dtype == DType::bf16 ? for_warps<bf16>(D) : for_warps<float>(D);
}

// Calls body.template operator()<T, Pieces>() for the narrowest width that holds D.
template <class Body>
void for_width(DType dtype, int64_t D, const Body& body) {
  with_float_type(dtype, [&](auto t) {
    using T = decltype(t);
    if (D <= kWidth<T, 4>) {
      body.template operator()<T, 4>();
    } else if (D <= kWidth<T, 6>) {
      body.template operator()<T, 6>();
    } else {
      body.template operator()<T, 8>();
    }
  });
}

template <int N>
void add_up(int64_t D, int64_t blocks, const float* partials, float* d_weight, Stream stream) {
  simt::launch(rmsnorm_weight_kernel<N>,
               {{block_count(D, kStrip * N)}, kThreads, sizeof(Strip<N>), stream, "rmsnorm_weight"}, D,
               blocks, partials, d_weight);
}

}  // namespace

void add_norm_weight(int64_t D, int64_t blocks, const float* partials, float* d_weight, Stream stream) {
  D % 4 == 0 ? add_up<4>(D, blocks, partials, d_weight, stream)
             : add_up<1>(D, blocks, partials, d_weight, stream);
}

void rmsnorm_forward(const RmsNormForward& a, Stream stream) {
  check(a.dtype != DType::i32, "rmsnorm_forward: expected f32 or bf16");
  if (!for_warps(a.dtype, a.rows, a.D)) return rmsnorm_forward_plain(a, stream);
  const int64_t blocks = rows_blocks(a.rows, kNormForwardBlocks);
  for_width(a.dtype, a.D, [&]<class T, int Pieces>() {
    simt::launch(rmsnorm_forward_kernel<T, Pieces>,
                 {{blocks}, kThreads, sizeof(Weight<T, Pieces>), stream, "rmsnorm_forward"}, a,
                 rows_a_group(a.rows, blocks));
  });
}

void rmsnorm_backward(const RmsNormBackward& a, Stream stream) {
  check(a.dtype != DType::i32, "rmsnorm_backward: expected f32 or bf16");
  int64_t blocks = rows_blocks(a.rows, kNormBackwardBlocks);
  if (!for_warps(a.dtype, a.rows, a.D)) {
    blocks = rmsnorm_backward_plain(a, stream);
  } else {
    for_width(a.dtype, a.D, [&]<class T, int Pieces>() {
      simt::launch(rmsnorm_backward_kernel<T, Pieces>,
                   {{blocks}, kThreads, sizeof(BackwardPlan<T, Pieces>), stream, "rmsnorm_backward"}, a,
                   rows_a_group(a.rows, blocks));
    });
  }
  add_norm_weight(a.D, blocks, static_cast<const float*>(a.workspace), a.d_weight, stream);
}

size_t rmsnorm_backward_workspace(int64_t rows, int64_t D) {
  return size_t(std::min(rows, kNormBackwardBlocks) * D) * sizeof(float);
}

}  // namespace genesis::cuda
