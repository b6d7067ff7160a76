// Memory-bound. A warp takes a row at a time and keeps it in registers, so every input is read once; blocks
// stay for many rows, so the weight is read once a block, into shared memory. Prediction for 8192 x 1536 bf16
// at the 911 GB/s of an RTX 4090: 111 us forward (x, residual in; h, y out), 112 us backward (dy, d_residual,
// h in; dh out; 1.6 MB of partial weight gradients out and in again).
#include <algorithm>

#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::kVec;
using simt::kWarpSize;

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
// The same on every card, because the weight's gradient is summed by blocks: 4 and 2 a multiprocessor of an
// RTX 4090. Each warp has a row's loads in flight at once, some 6 KB.
constexpr int64_t kForwardBlocks = 512, kBackwardBlocks = 256;

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

template <class T, int Pieces>
__global__ void __launch_bounds__(kThreads) rmsnorm_forward_kernel(RmsNormForward a) {
  constexpr int N = kVec<T>;
  auto& plan = simt::shared<Weight<T, Pieces>>();
  const int D = int(a.D);
  load_weight<T, Pieces>(plan, static_cast<const T*>(a.weight), D);
  const auto* x = static_cast<const T*>(a.x);
  const auto* residual = static_cast<const T*>(a.residual);
  for (int64_t row = int64_t(blockIdx.x) * kWarps + simt::warp(); row < a.rows;
       row += int64_t(gridDim.x) * kWarps) {
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
    if (a.rstd && simt::lane() == 0) simt::store(a.rstd + row, rstd);
  }
}

template <class T, int Pieces>
struct BackwardPlan : Weight<T, Pieces> {
  float d_weight[kWidth<T, Pieces>];
};

// One row's dh, and its part of the weight's gradient added to the lane's columns.
template <class T, int Pieces>
__device__ inline void backward_row(const RmsNormBackward& a, const BackwardPlan<T, Pieces>& plan,
                                    int64_t row, float (&d_weight)[Pieces][kVec<T>]) {
  constexpr int N = kVec<T>;
  const int D = int(a.D);
  const float rstd = simt::load(a.rstd + row);
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
      simt::load_floats(r, static_cast<const T*>(a.d_residual) + row * D + column);
#pragma unroll
      for (int i = 0; i < N; ++i) dh[i] += r[i];
    }
    simt::store_floats(static_cast<T*>(a.dh) + row * D + column, dh);
  }
}

// Adds a warp's columns to the block's sum, or begins it.
template <class T, int Pieces>
__device__ inline void add_columns(BackwardPlan<T, Pieces>& plan, float (&d_weight)[Pieces][kVec<T>],
                                   bool add, int D) {
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
    const int column = (p * kWarpSize + simt::lane()) * kVec<T>;
    if (column >= D) continue;
    if (add) {
      float sum[kVec<T>];
      simt::load_floats(sum, &plan.d_weight[column]);
#pragma unroll
      for (int i = 0; i < kVec<T>; ++i) d_weight[p][i] += sum[i];
    }
    simt::store_floats(&plan.d_weight[column], d_weight[p]);
  }
}

// Two blocks a multiprocessor are all that there are; told nothing, ptxas spills in fp32 on sm_80.
template <class T, int Pieces>
__global__ void __launch_bounds__(kThreads, 2) rmsnorm_backward_kernel(RmsNormBackward a) {
  constexpr int N = kVec<T>;
  auto& plan = simt::shared<BackwardPlan<T, Pieces>>();
  const int D = int(a.D);
  load_weight<T, Pieces>(plan, static_cast<const T*>(a.weight), D);
  float d_weight[Pieces][N] = {};
  for (int64_t row = int64_t(blockIdx.x) * kWarps + simt::warp(); row < a.rows;
       row += int64_t(gridDim.x) * kWarps) {
    backward_row<T, Pieces>(a, plan, row, d_weight);
  }
  // The warps' sums, one warp after another, so that the order is fixed. A lane's columns are 32 bytes apart
  // from the next lane's in bf16, which makes two-way bank conflicts: once a block, against hundreds of rows.
  for (int turn = 0; turn < kWarps; ++turn) {
    if (simt::warp() == turn) add_columns<T, Pieces>(plan, d_weight, turn > 0, D);
    simt::sync_threads();
  }
  for (int i = int(threadIdx.x) * 4; i < D; i += kThreads * 4) {
    simt::store_vec(static_cast<float*>(a.workspace) + int64_t(blockIdx.x) * D + i,
                    simt::load_vec<4>(&plan.d_weight[i]));
  }
}

// For widths that 16-byte accesses do not divide, or too wide for a warp: a block a row, element by element.
struct BlockSum {
  float warps[kWarps];
};

__device__ inline float block_sum(BlockSum& plan, float x) {
  x = simt::warp_sum(x);
  simt::sync_threads();
  if (simt::lane() == 0) simt::store(&plan.warps[simt::warp()], x);
  simt::sync_threads();
  float sum = 0.f;
  for (int w = 0; w < kWarps; ++w) sum += simt::load(&plan.warps[w]);
  return sum;
}

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
    const float rstd = 1.f / sqrtf(block_sum(plan, squares) / float(a.D) + a.eps);
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
    const float mean = block_sum(plan, dot) / float(a.D) * rstd * rstd;
    for (int64_t i = threadIdx.x; i < a.D; i += kThreads) {
      const float d = float(simt::load(dy + i)), value = float(simt::load(h + i));
      float dh = rstd * (d * float(simt::load(weight + i)) - value * mean);
      if (residual) dh += float(simt::load(residual + row * a.D + i));
      simt::store(partial + i, simt::load(partial + i) + d * (value * rstd));  // before dh takes dy's place
      simt::store(static_cast<T*>(a.dh) + row * a.D + i, T(dh));
    }
  }
}

// d_weight += the blocks' sums, in order within a warp's share, then over the warps. A block takes 32
// columns.
struct Columns {
  float warps[kWarps][kWarpSize];
};

__global__ void __launch_bounds__(kThreads)
    rmsnorm_weight_kernel(int64_t D, int64_t blocks, const float* partials, float* d_weight) {
  auto& plan = simt::shared<Columns>();
  const int64_t column = int64_t(blockIdx.x) * kWarpSize + simt::lane();
  float sum = 0.f;
  if (column < D) {
    for (int64_t b = simt::warp(); b < blocks; b += kWarps) sum += simt::load(partials + b * D + column);
  }
  simt::store(&plan.warps[simt::warp()][simt::lane()], sum);
  simt::sync_threads();
  if (simt::warp() > 0 || column >= D) return;
  for (int w = 1; w < kWarps; ++w) sum += simt::load(&plan.warps[w][simt::lane()]);
  simt::store(d_weight + column, simt::load(d_weight + column) + sum);
}

int64_t rows_blocks(int64_t rows, int64_t most) { return std::min((rows + kWarps - 1) / kWarps, most); }

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

}  // namespace

void rmsnorm_forward(const RmsNormForward& a, Stream stream) {
  for_type("rmsnorm_forward", a.dtype, a.D, [&]<class T, int Pieces>() {
    const auto launch = [&](auto kernel, int64_t blocks, size_t shared_bytes) {
      simt::launch(kernel, {{blocks}, kThreads, shared_bytes, stream, "rmsnorm_forward"}, a);
    };
    if constexpr (Pieces == 0) {
      launch(rmsnorm_forward_any_kernel<T>, std::min(a.rows, kForwardBlocks), sizeof(BlockSum));
    } else {
      launch(rmsnorm_forward_kernel<T, Pieces>, rows_blocks(a.rows, kForwardBlocks),
             sizeof(Weight<T, Pieces>));
    }
  });
}

void rmsnorm_backward(const RmsNormBackward& a, Stream stream) {
  int64_t blocks = 0;
  for_type("rmsnorm_backward", a.dtype, a.D, [&]<class T, int Pieces>() {
    const auto launch = [&](auto kernel, size_t shared_bytes) {
      simt::launch(kernel, {{blocks}, kThreads, shared_bytes, stream, "rmsnorm_backward"}, a);
    };
    if constexpr (Pieces == 0) {
      blocks = std::min(a.rows, kBackwardBlocks);
      launch(rmsnorm_backward_any_kernel<T>, sizeof(BlockSum));
    } else {
      blocks = rows_blocks(a.rows, kBackwardBlocks);
      launch(rmsnorm_backward_kernel<T, Pieces>, sizeof(BackwardPlan<T, Pieces>));
    }
  });
  const simt::Launch l{.grid = {(a.D + kWarpSize - 1) / kWarpSize},
                       .block = kThreads,
                       .shared_bytes = sizeof(Columns),
                       .stream = stream,
                       .name = "rmsnorm_weight"};
  simt::launch(rmsnorm_weight_kernel, l, a.D, blocks, static_cast<const float*>(a.workspace), a.d_weight);
}

size_t rmsnorm_backward_workspace(int64_t rows, int64_t D) {
  return size_t(std::min(rows, kBackwardBlocks) * D) * sizeof(float);
}

}  // namespace genesis::cuda
