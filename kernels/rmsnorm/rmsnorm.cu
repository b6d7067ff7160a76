// Memory-bound. A warp takes a row at a time and keeps it in registers, so every input is read once and
// waited for once; blocks stay for many rows, so the weight is read once a block, into shared memory.
// Prediction for 8192 x 1536 bf16 at the 911 GB/s of an RTX 4090: 111 us forward (x, residual in; h, y out),
// 113 us backward (dy, d_residual, h in; dh out; 0.8 MB of partial weight gradients out and in again).
#include <algorithm>

#include "kernels/common/block_count.h"
#include "kernels/ptx/ptx.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/simt/block_sum.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::kVec;
using simt::kWarpSize;

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
// The same on every card, because the weight's gradient is summed by blocks: 2 and 1 a multiprocessor of an
// RTX 4090. Each warp has a row's loads in flight at once, some 6 KB. What a block reads and writes for
// itself (the weight; backward also its part of the weight's gradient, and that again) is 1.6% and 2.0% of
// the bytes of 8192 rows, so there are no more blocks than keep the memory busy.
constexpr int64_t kForwardBlocks = 256, kBackwardBlocks = 128;

// Elements of a row that the lanes hold together: `Pieces` accesses of 16 bytes each.
template <class T, int Pieces>
constexpr int kWidth = Pieces* kWarpSize* kVec<T>;

template <class T, int Pieces>
struct Weight {
  T weight[kWidth<T, Pieces>];
};

template <class T, int Pieces>
__device__ inline void load_weight(Weight<T, Pieces>& plan, const T* weight, int D) {
  for (int i = int(threadIdx.x) * kVec<T>; i < D; i += kThreads * kVec<T>) {
    simt::store_vec(&plan.weight[i], simt::load_vec<kVec<T>>(weight + i));
  }
  simt::sync_threads();
}

// A row's h and y; returns its 1/rms.
template <class T, int Pieces>
__device__ inline float forward_row(const RmsNormForward& a, const Weight<T, Pieces>& plan, int64_t row) {
  constexpr int N = kVec<T>;
  const int D = int(a.D);
  const auto* x = static_cast<const T*>(a.x);
  const auto* residual = static_cast<const T*>(a.residual);
  float h[Pieces][N];
  float squares = 0.f;
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
    const int column = (p * kWarpSize + simt::lane()) * N;
    if (column >= D) continue;
    simt::load_floats(h[p], x + row * D + column);
    if (residual) {
      float r[N];
      simt::load_floats(r, residual + row * D + column);
#pragma unroll
      for (int i = 0; i < N; ++i) h[p][i] = simt::rounded<T>(h[p][i] + r[i]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) squares += h[p][i] * h[p][i];
  }
  const float rstd = 1.f / sqrtf(simt::warp_sum(squares) / float(D) + a.eps);
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
    const int column = (p * kWarpSize + simt::lane()) * N;
    if (column >= D) continue;
    if (a.h) simt::store_floats(static_cast<T*>(a.h) + row * D + column, h[p]);
    float w[N];
    simt::load_floats(w, &plan.weight[column]);
#pragma unroll
    for (int i = 0; i < N; ++i) h[p][i] *= rstd * w[i];
    simt::store_floats(static_cast<T*>(a.y) + row * D + column, h[p]);
  }
  return rstd;
}

// Warps take `group` rows at a time, at most 32, so that the rows' 1/rms move together: alone each would cost
// a sector. Told nothing of the two blocks a multiprocessor, ptxas spills on sm_80.
template <class T, int Pieces>
__global__ void __launch_bounds__(kThreads, 2) rmsnorm_forward_kernel(RmsNormForward a, int group) {
  auto& plan = simt::shared<Weight<T, Pieces>>();
  load_weight<T, Pieces>(plan, static_cast<const T*>(a.weight), int(a.D));
  for (int64_t first = (int64_t(blockIdx.x) * kWarps + simt::warp()) * group; first < a.rows;
       first += int64_t(gridDim.x) * kWarps * group) {
    const int rows = first + group < a.rows ? group : int(a.rows - first);
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

// One row's dh, and its part of the weight's gradient added to the lane's columns.
template <class T, int Pieces>
__device__ inline void backward_row(const RmsNormBackward& a, BackwardPlan<T, Pieces>& plan, int64_t row,
                                    float rstd, float (&d_weight)[Pieces][kVec<T>]) {
  constexpr int N = kVec<T>;
  const int D = int(a.D);
  T* d_residual = plan.d_residual[simt::warp()];
  if (a.d_residual) {
#pragma unroll
    for (int p = 0; p < Pieces; ++p) {
      const int column = (p * kWarpSize + simt::lane()) * N;
      if (column >= D) continue;
      ptx::copy_async<16>(d_residual + column, static_cast<const T*>(a.d_residual) + row * D + column);
    }
    ptx::commit_copies();
  }
  // Kept as stored: as fp32 a row of 2,048 would not fit the registers.
  simt::Vec<T, N> dy[Pieces], h[Pieces];
  float dot = 0.f;
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
    const int column = (p * kWarpSize + simt::lane()) * N;
    if (column >= D) continue;
    dy[p] = simt::load_vec<N>(static_cast<const T*>(a.dy) + row * D + column);
    h[p] = simt::load_vec<N>(static_cast<const T*>(a.h) + row * D + column);
    float w[N];
    simt::load_floats(w, &plan.weight[column]);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float d = float(dy[p][i]), value = float(h[p][i]);
      dot += d * w[i] * value;
      d_weight[p][i] += d * (value * rstd);
    }
  }
  const float mean = simt::warp_sum(dot) / float(D) * rstd * rstd;
  ptx::wait_copies<0>();
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
    const int column = (p * kWarpSize + simt::lane()) * N;
    if (column >= D) continue;
    float w[N], dh[N];
    simt::load_floats(w, &plan.weight[column]);
#pragma unroll
    for (int i = 0; i < N; ++i) dh[i] = rstd * (float(dy[p][i]) * w[i] - float(h[p][i]) * mean);
    if (a.d_residual) {
      float r[N];
      simt::load_floats(r, d_residual + column);
#pragma unroll
      for (int i = 0; i < N; ++i) dh[i] += r[i];
    }
    simt::store_floats(static_cast<T*>(a.dh) + row * D + column, dh);
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
      const int column = (p * kWarpSize + simt::lane()) * kVec<T> + half;
      if (column >= D) continue;
      float* place = &plan.d_weight[place_of(column)];
      simt::Vec<float, 4> sum = add ? simt::load_vec<4>(place) : simt::Vec<float, 4>{};
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += d_weight[p][half + i];
      simt::store_vec(place, sum);
    }
  }
}

// An RTX 4090 gets one block a multiprocessor; cards with fewer of them put two on some, where the registers
// allow it.
template <class T, int Pieces>
__global__ void __launch_bounds__(kThreads, Pieces < 8 ? 2 : 1)
    rmsnorm_backward_kernel(RmsNormBackward a, int group) {
  auto& plan = simt::shared<BackwardPlan<T, Pieces>>();
  const int D = int(a.D);
  load_weight<T, Pieces>(plan, static_cast<const T*>(a.weight), D);
  float d_weight[Pieces][kVec<T>] = {};
  for (int64_t first = (int64_t(blockIdx.x) * kWarps + simt::warp()) * group; first < a.rows;
       first += int64_t(gridDim.x) * kWarps * group) {
    const int rows = first + group < a.rows ? group : int(a.rows - first);
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
  for (int column = int(threadIdx.x) * 4; column < D; column += kThreads * 4) {
    simt::store_vec(static_cast<float*>(a.workspace) + int64_t(blockIdx.x) * D + column,
                    simt::load_vec<4>(&plan.d_weight[place_of(column)]));
  }
}

// For widths that 16-byte accesses do not divide, or too wide for a warp: a block a row, element by element.
using BlockSum = simt::BlockSum<kWarps>;

template <class T>
__global__ void __launch_bounds__(kThreads) rmsnorm_forward_any_kernel(RmsNormForward a) {
  auto& plan = simt::shared<BlockSum>();
  const auto* x = static_cast<const T*>(a.x);
  const auto* residual = static_cast<const T*>(a.residual);
  const auto sum_at = [&](int64_t i) {
    const float value = float(simt::load(x + i));
    return residual ? simt::rounded<T>(value + float(simt::load(residual + i))) : value;
  };
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    float squares = 0.f;
    for (int64_t i = threadIdx.x; i < a.D; i += kThreads) {
      const float h = sum_at(row * a.D + i);
      squares += h * h;
    }
    const float rstd = 1.f / sqrtf(simt::block_sum(plan, squares) / float(a.D) + a.eps);
    for (int64_t i = threadIdx.x; i < a.D; i += kThreads) {
      const float h = sum_at(row * a.D + i), w = float(simt::load(static_cast<const T*>(a.weight) + i));
      if (a.h) simt::store(static_cast<T*>(a.h) + row * a.D + i, T(h));
      simt::store(static_cast<T*>(a.y) + row * a.D + i, T(h * (rstd * w)));
    }
    if (a.rstd && threadIdx.x == 0) simt::store(a.rstd + row, rstd);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) rmsnorm_backward_any_kernel(RmsNormBackward a) {
  auto& plan = simt::shared<BlockSum>();
  const auto* weight = static_cast<const T*>(a.weight);
  const auto* residual = static_cast<const T*>(a.d_residual);
  float* partial = static_cast<float*>(a.workspace) + int64_t(blockIdx.x) * a.D;
  for (int64_t i = threadIdx.x; i < a.D; i += kThreads) simt::store(partial + i, 0.f);
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const auto* dy = static_cast<const T*>(a.dy) + row * a.D;
    const auto* h = static_cast<const T*>(a.h) + row * a.D;
    const float rstd = simt::load(a.rstd + row);
    float dot = 0.f;
    for (int64_t i = threadIdx.x; i < a.D; i += kThreads) {
      dot += float(simt::load(dy + i)) * float(simt::load(weight + i)) * float(simt::load(h + i));
    }
    const float mean = simt::block_sum(plan, dot) / float(a.D) * rstd * rstd;
    for (int64_t i = threadIdx.x; i < a.D; i += kThreads) {
      const float d = float(simt::load(dy + i)), value = float(simt::load(h + i));
      float dh = rstd * (d * float(simt::load(weight + i)) - value * mean);
      if (residual) dh += float(simt::load(residual + row * a.D + i));
      simt::store(partial + i, simt::load(partial + i) + d * (value * rstd));  // before dh takes dy's place
      simt::store(static_cast<T*>(a.dh) + row * a.D + i, T(dh));
    }
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
  simt::store_floats(&plan.rows[row][lane * N], sum);
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

// Calls body.template operator()<T, Pieces>() for the narrowest width that holds D; Pieces = 0: none does.
template <class T, class Body>
void for_width(int64_t D, const Body& body) {
  if (D % kVec<T> != 0 || D > kWidth<T, 8>) {
    body.template operator()<T, 0>();
  } else if (D <= kWidth<T, 4>) {
    body.template operator()<T, 4>();
  } else if (D <= kWidth<T, 6>) {
    body.template operator()<T, 6>();
  } else {
    body.template operator()<T, 8>();
  }
}

template <class Body>
void for_type(const char* name, DType dtype, int64_t D, const Body& body) {
  check(dtype != DType::i32, std::string(name) + ": expected f32 or bf16");
  dtype == DType::bf16 ? for_width<bf16>(D, body) : for_width<float>(D, body);
}

template <int N>
void add_up(const RmsNormBackward& a, int64_t blocks, Stream stream) {
  simt::launch(rmsnorm_weight_kernel<N>,
               {{block_count(a.D, kStrip * N)}, kThreads, sizeof(Strip<N>), stream, "rmsnorm_weight"}, a.D,
               blocks, static_cast<const float*>(a.workspace), a.d_weight);
}

}  // namespace

void rmsnorm_forward(const RmsNormForward& a, Stream stream) {
  for_type("rmsnorm_forward", a.dtype, a.D, [&]<class T, int Pieces>() {
    const auto launch = [&](auto kernel, int64_t blocks, size_t shared_bytes, auto... group) {
      simt::launch(kernel, {{blocks}, kThreads, shared_bytes, stream, "rmsnorm_forward"}, a, group...);
    };
    if constexpr (Pieces == 0) {
      launch(rmsnorm_forward_any_kernel<T>, std::min(a.rows, kForwardBlocks), sizeof(BlockSum));
    } else {
      const int64_t blocks = rows_blocks(a.rows, kForwardBlocks);
      launch(rmsnorm_forward_kernel<T, Pieces>, blocks, sizeof(Weight<T, Pieces>),
             rows_a_group(a.rows, blocks));
    }
  });
}

void rmsnorm_backward(const RmsNormBackward& a, Stream stream) {
  int64_t blocks = 0;
  for_type("rmsnorm_backward", a.dtype, a.D, [&]<class T, int Pieces>() {
    const auto launch = [&](auto kernel, size_t shared_bytes, auto... group) {
      simt::launch(kernel, {{blocks}, kThreads, shared_bytes, stream, "rmsnorm_backward"}, a, group...);
    };
    if constexpr (Pieces == 0) {
      blocks = std::min(a.rows, kBackwardBlocks);
      launch(rmsnorm_backward_any_kernel<T>, sizeof(BlockSum));
    } else {
      blocks = rows_blocks(a.rows, kBackwardBlocks);
      launch(rmsnorm_backward_kernel<T, Pieces>, sizeof(BackwardPlan<T, Pieces>),
             rows_a_group(a.rows, blocks));
    }
  });
  a.D % 4 == 0 ? add_up<4>(a, blocks, stream) : add_up<1>(a, blocks, stream);
}

size_t rmsnorm_backward_workspace(int64_t rows, int64_t D) {
  return size_t(std::min(rows, kBackwardBlocks) * D) * sizeof(float);
}

}  // namespace genesis::cuda
