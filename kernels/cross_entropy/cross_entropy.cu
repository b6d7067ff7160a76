// Memory-bound. A block takes a row and keeps it in registers, so the logits are read once and their gradient
// is written once; a row too wide for that is read twice, the second time from L2 (258 KB for 129,280 bf16
// logits). Prediction for 1024 x 49152 bf16 at the 911 GB/s of an RTX 4090: 221 us.
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::kVec;

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / simt::kWarpSize;

// The largest logit seen, and the sum of exp(logit - largest): what a part of a row adds to the softmax's
// denominator.
struct Softmax {
  float top = -INFINITY, sum = 0.f;
};

__device__ inline Softmax merged(Softmax a, Softmax b) {
  const float top = fmaxf(a.top, b.top);
  if (top == -INFINITY) return a;
  return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

struct Plan {
  float top[kWarps], sum[kWarps];
};

__device__ inline Softmax block_softmax(Plan& plan, Softmax s) {
  for (int bits = simt::kWarpSize / 2; bits > 0; bits /= 2) {
    s = merged(s, {simt::shuffle_xor(s.top, bits), simt::shuffle_xor(s.sum, bits)});
  }
  if (simt::lane() == 0) {
    simt::store(&plan.top[simt::warp()], s.top);
    simt::store(&plan.sum[simt::warp()], s.sum);
  }
  simt::sync_threads();
  s = {simt::load(&plan.top[0]), simt::load(&plan.sum[0])};
  for (int w = 1; w < kWarps; ++w) s = merged(s, {simt::load(&plan.top[w]), simt::load(&plan.sum[w])});
  return s;
}

// Logits from `column` on, of which those at or past V count as -infinity.
template <class T, int N>
__device__ inline void unpack(float (&x)[N], const simt::Vec<T, N>& logits, int64_t column, int64_t V) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = column + i < V ? float(logits[i]) : -INFINITY;
}

template <int N>
__device__ inline void add_logits(Softmax& s, const float (&x)[N]) {
  float top = s.top;
#pragma unroll
  for (int i = 0; i < N; ++i) top = fmaxf(top, x[i]);
  if (top == -INFINITY) return;
  float sum = s.sum * expf(s.top - top);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += expf(x[i] - top);
  s = {top, sum};
}

// What turns a row's logits into their gradient.
struct Gradient {
  float lse, factor;
  int64_t target;

  template <int N, class G>
  __device__ void write(G* d_row, int64_t column, float (&x)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = factor * expf(x[i] - lse) - (column + i == target ? 1.f : 0.f);
    simt::store_floats(d_row + column, x);
  }
};

// L: logits' type, G: gradient's, N: elements of an access, kPieces: accesses a thread keeps; 0: none, the
// row is read twice.
template <class L, class G, int N, int kPieces>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(CrossEntropy a) {
  auto& plan = simt::shared<Plan>();
  const int64_t row = blockIdx.x;
  const int32_t target = simt::load(a.targets + row);
  const L* logits = static_cast<const L*>(a.logits) + row * a.stride;
  G* d_logits = a.d_logits ? static_cast<G*>(a.d_logits) + row * a.stride : nullptr;
  const int64_t first = int64_t(threadIdx.x) * N, step = int64_t(kThreads) * N;

  if (target < 0) {
    if (threadIdx.x == 0 && a.row_loss) simt::store(a.row_loss + row, 0.f);
    float zeros[N] = {};
    if (d_logits) {
      for (int64_t column = first; column < a.stride; column += step)
        simt::store_floats(d_logits + column, zeros);
    }
    return;
  }

  // The target's logit, before a gradient takes its place.
  const float wanted = threadIdx.x == 0 ? float(simt::load(logits + target)) : 0.f;
  Softmax s;
  float x[N];
  simt::Vec<L, N> kept[kPieces > 0 ? kPieces : 1];  // as stored: in fp32 they would not fit the registers
  if constexpr (kPieces > 0) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int64_t column = first + p * step;
      if (column >= a.stride) continue;
      kept[p] = simt::load_vec<N>(logits + column);
      unpack(x, kept[p], column, a.V);
      add_logits(s, x);
    }
  } else {
    for (int64_t column = first; column < a.V; column += step) {
      unpack(x, simt::load_vec<N>(logits + column), column, a.V);
      add_logits(s, x);
    }
  }
  s = block_softmax(plan, s);
  const float lse = s.top + logf(s.sum);
  if (threadIdx.x == 0 && a.row_loss) simt::store(a.row_loss + row, lse - wanted);
  if (!d_logits) return;

  const Gradient gradient{lse, 1.f + 2.f * a.z_loss * lse, target};
  if constexpr (kPieces > 0) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int64_t column = first + p * step;
      if (column >= a.stride) continue;
      unpack(x, kept[p], column, a.V);
      gradient.write(d_logits, column, x);
    }
  } else {
    for (int64_t column = first; column < a.stride; column += step) {
      unpack(x, simt::load_vec<N>(logits + column), column, a.V);
      gradient.write(d_logits, column, x);
    }
  }
}

// One warp: the rows' losses and the number of valid ones, added to what is there. The order of the sum is
// fixed: a lane takes every 32nd row, then the lanes pairwise.
__global__ void __launch_bounds__(simt::kWarpSize) cross_entropy_sum_kernel(CrossEntropy a) {
  float loss = 0.f, count = 0.f;
  for (int64_t row = simt::lane(); row < a.rows; row += simt::kWarpSize) {
    loss += simt::load(a.row_loss + row);
    count += simt::load(a.targets + row) >= 0 ? 1.f : 0.f;
  }
  loss = simt::warp_sum(loss);
  count = simt::warp_sum(count);
  if (simt::lane() != 0) return;
  simt::store(a.loss_and_count, simt::load(a.loss_and_count) + loss);
  simt::store(a.loss_and_count + 1, simt::load(a.loss_and_count + 1) + count);
}

template <class L, class G>
void launch_rows(const CrossEntropy& a, Stream stream) {
  constexpr int N = kVec<L> < kVec<G> ? kVec<L> : kVec<G>;
  constexpr int kPieces = 12;  // 49,152 bf16 logits in 48 registers a thread
  const auto launch = [&](auto kernel) {
    simt::launch(kernel, {{a.rows}, kThreads, sizeof(Plan), stream, "cross_entropy"}, a);
  };
  if (a.stride % N != 0) {
    launch(cross_entropy_kernel<L, G, 1, 0>);
  } else if (a.stride <= int64_t(kThreads) * N * kPieces) {
    launch(cross_entropy_kernel<L, G, N, kPieces>);
  } else {
    launch(cross_entropy_kernel<L, G, N, 0>);
  }
}

}  // namespace

void cross_entropy(const CrossEntropy& a, Stream stream) {
  const bool f32_logits = a.logits_dtype == DType::f32, f32_gradient = a.d_logits_dtype == DType::f32;
  check(a.logits_dtype != DType::i32 && a.d_logits_dtype != DType::i32,
        "cross_entropy: expected f32 or bf16");
  check(a.row_loss != nullptr || a.loss_and_count == nullptr,
        "cross_entropy: row_loss is where the sum reads from");
  if (f32_logits) {
    f32_gradient ? launch_rows<float, float>(a, stream) : launch_rows<float, bf16>(a, stream);
  } else {
    f32_gradient ? launch_rows<bf16, float>(a, stream) : launch_rows<bf16, bf16>(a, stream);
  }
  if (a.loss_and_count) {
    simt::launch(cross_entropy_sum_kernel, {{1}, simt::kWarpSize, 0, stream, "cross_entropy_sum"}, a);
  }
}

}  // namespace genesis::cuda
