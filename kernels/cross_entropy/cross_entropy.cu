// Memory-bound. A block takes a row and keeps it in registers, a wide one partly in shared memory, so that
// the logits are read once and their gradient is written once: rows of up to 65,536 fp32 logits, or 131,072
// in bf16. What does not fit even so is read twice.
#include <string>

#include "kernels/common/dispatch.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/ptx/ptx.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::kVec;

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / simt::kWarpSize;

// The largest logit seen, and the sum of exp(logit - largest): what a part of a row adds to the softmax's
// denominator. A NaN is never the largest, but is in the sum.
struct Softmax {
  float top = -INFINITY, sum = 0.f;
};

// What logits are taken relative to: where none is above -infinity anything that makes no inf - inf.
__device__ inline float base_of(float top) { return top == -INFINITY ? 0.f : top; }

__device__ inline Softmax merged(Softmax a, Softmax b) {
  const float top = fmaxf(a.top, b.top), base = base_of(top);
  return {top, a.sum * expf(a.top - base) + b.sum * expf(b.top - base)};
}

template <int N>
__device__ inline void add_logits(Softmax& s, const float (&x)[N]) {
  float top = s.top;
#pragma unroll
  for (int i = 0; i < N; ++i) top = fmaxf(top, x[i]);
  const float base = base_of(top);
  float sum = s.sum * expf(s.top - base);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += expf(x[i] - base);
  s = {top, sum};
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

// A block's row.
template <class T>
struct Row {
  int V, stride;
  int32_t target;  // negative: ignored
  const T* logits;
  T* gradient;  // or null
  float* loss;  // or null

  __device__ explicit Row(const CrossEntropy& a)
      : V(int(a.V)),
        stride(int(a.stride)),
        target(simt::load(a.targets + blockIdx.x)),
        logits(static_cast<const T*>(a.logits) + blockIdx.x * a.stride),
        gradient(a.d_logits ? static_cast<T*>(a.d_logits) + blockIdx.x * a.stride : nullptr),
        loss(a.row_loss ? a.row_loss + blockIdx.x : nullptr) {}

  // N logits of those at `column` and on as they count: those past V not at all.
  template <int N, class Logits>
  __device__ void take(float (&x)[N], const Logits& loaded, int column) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = column + i < V ? loaded[i] : -INFINITY;
  }
  // Turns them into their gradient, where factor is 1 + 2 z_loss lse.
  template <int N>
  __device__ void differentiate(float (&x)[N], int column, float lse, float factor) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = factor * expf(x[i] - lse) - (column + i == target ? 1.f : 0.f);
  }
  // N elements a thread.
  template <int N>
  __device__ void ignore() const {
    if (threadIdx.x == 0 && loss) simt::store(loss, 0.f);
    if (!gradient) return;
    const float zeros[N] = {};
#pragma unroll 1
    for (int column = int(threadIdx.x) * N; column < stride; column += kThreads * N) {
      simt::store_floats(gradient + column, zeros);
    }
  }
};

template <class T, int kShared>
struct RowPlan : Plan {
  T pieces[kShared][kThreads * kVec<T>];  // a thread reads what it copied itself
};
template <class T>
struct RowPlan<T, 0> : Plan {};

// A thread takes 16 bytes of the row in a step of the block. Of the steps the first kKept are kept in registers, the
// next kShared in shared memory, and the rest is read twice.
template <class T, int kKept, int kShared>
__global__ void __launch_bounds__(kThreads, 1) cross_entropy_kernel(CrossEntropy a) {
  constexpr int N = kVec<T>, kStep = kThreads * N;
  auto& plan = simt::shared<RowPlan<T, kShared>>();
  const Row<T> row(a);
  if (row.target < 0) return row.template ignore<N>();

  const int first = int(threadIdx.x) * N;
  simt::Packed<T> kept[kKept];  // as stored: in fp32 they would not fit the registers
#pragma unroll
  for (int p = 0; p < kKept; ++p) {
    const int column = first + p * kStep;
    kept[p].load_if(column < row.stride, row.logits + column);
  }
  if constexpr (kShared > 0) {
    for (int p = 0; p < kShared; ++p) {
      const int column = first + (kKept + p) * kStep;
      if (column < row.stride) ptx::copy_async<16>(&plan.pieces[p][first], row.logits + column);
    }
    ptx::commit_copies();
  }
  // The target's logit, before a gradient takes its place.
  const float wanted = threadIdx.x == 0 ? float(simt::load(row.logits + row.target)) : 0.f;

  // Calls body(x, column) for each of the thread's steps, with its logits as floats.
  const auto for_pieces = [&](const auto& body) {
    float x[N];
    const auto call = [&](const simt::Packed<T>& piece, int column) {
      row.take(x, piece, column);
      body(x, column);
    };
#pragma unroll
    for (int p = 0; p < kKept; ++p) {
      const int column = first + p * kStep;
      if (column < row.stride) call(kept[p], column);
    }
    if constexpr (kShared > 0) {
      int column = first + kKept * kStep;
      ptx::wait_copies<0>();
#pragma unroll 1
      for (int p = 0; p < kShared && column < row.stride; ++p, column += kStep) {
        call(simt::Packed<T>::load(&plan.pieces[p][first]), column);
      }
#pragma unroll 1
      for (; column < row.stride; column += kStep) call(simt::Packed<T>::load(row.logits + column), column);
    }
  };

  Softmax s;
  for_pieces([&](float(&x)[N], int) { add_logits(s, x); });
  s = block_softmax(plan, s);
  const float lse = s.top + logf(s.sum);
  if (threadIdx.x == 0 && row.loss) simt::store(row.loss, lse - wanted);
  if (!row.gradient) return;
  const float factor = 1.f + 2.f * a.z_loss * lse;
  for_pieces([&](float(&x)[N], int column) {
    row.differentiate(x, column, lse, factor);
    simt::store_floats(row.gradient + column, x);
  });
}

// For strides that 16-byte accesses do not divide: element by element, each read twice.
template <class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_plain_kernel(CrossEntropy a) {
  auto& plan = simt::shared<Plan>();
  const Row<T> row(a);
  if (row.target < 0) return row.template ignore<1>();
  const float wanted = threadIdx.x == 0 ? float(simt::load(row.logits + row.target)) : 0.f;
  float x[1];
  Softmax s;
  for (int column = int(threadIdx.x); column < row.V; column += kThreads) {
    simt::load_floats(x, row.logits + column);
    add_logits(s, x);
  }
  s = block_softmax(plan, s);
  const float lse = s.top + logf(s.sum);
  if (threadIdx.x == 0 && row.loss) simt::store(row.loss, lse - wanted);
  if (!row.gradient) return;
  const float factor = 1.f + 2.f * a.z_loss * lse;
  for (int column = int(threadIdx.x); column < row.stride; column += kThreads) {
    float logit[1];
    simt::load_floats(logit, row.logits + column);
    row.take(x, logit, column);
    row.differentiate(x, column, lse, factor);
    simt::store_floats(row.gradient + column, x);
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
  LossSum* sum = a.loss_and_count;
  LossSum next{simt::load(&sum->loss) + loss, simt::load(&sum->count) + count, simt::load(&sum->loss_before),
               simt::load(&sum->count_before)};
  next.carry();
  simt::store(&sum->loss, next.loss);
  simt::store(&sum->count, next.count);
  simt::store(&sum->loss_before, next.loss_before);
  simt::store(&sum->count_before, next.count_before);
}

template <class T>
void launch_rows(const CrossEntropy& a, Stream stream) {
  constexpr int N = kVec<T>;
  // A thread keeps 48 registers of logits: 24,576 in fp32, 49,152 in bf16; or 80 and 192 bytes of the block's
  // shared memory: 65,536, or 131,072.
  constexpr int kNarrow = 12, kWide = 20, kShared = 12;
  const auto launch = [&](auto kernel, size_t shared_bytes) {
    simt::launch(kernel, {{a.rows}, kThreads, shared_bytes, stream, "cross_entropy"}, a);
  };
  if (a.stride % N != 0) {
    launch(cross_entropy_plain_kernel<T>, sizeof(Plan));
  } else if (a.stride <= int64_t(kThreads) * N * kNarrow) {
    launch(cross_entropy_kernel<T, kNarrow, 0>, sizeof(Plan));
  } else {
    launch(cross_entropy_kernel<T, kWide, kShared>, sizeof(RowPlan<T, kShared>));
  }
}

}  // namespace

void cross_entropy(const CrossEntropy& a, Stream stream) {
  check(a.logits_dtype == a.d_logits_dtype && a.logits_dtype != DType::i32,
        "cross_entropy on CUDA: expected logits and a gradient of one type, f32 or bf16; found " +
            std::string(name_of(a.logits_dtype)) + " and " + name_of(a.d_logits_dtype));
  check(a.row_loss != nullptr || a.loss_and_count == nullptr,
        "cross_entropy: row_loss is where the sum reads from");
  with_float_type(a.logits_dtype, [&](auto t) { launch_rows<decltype(t)>(a, stream); });
  if (a.loss_and_count) {
    simt::launch(cross_entropy_sum_kernel, {{1}, simt::kWarpSize, 0, stream, "cross_entropy_sum"}, a);
  }
}

}  // namespace genesis::cuda
