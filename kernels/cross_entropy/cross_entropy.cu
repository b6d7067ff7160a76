// Memory-bound. A block takes a row and keeps it in registers, a wide one partly in shared memory, so that
// the logits are read once and their gradient is written once: rows of up to 65,536 fp32 logits, or 131,072
// in bf16. What does not fit even so is read twice.
//
// Prediction at the 911 GB/s of an RTX 4090, for fp32 logits and a bf16 gradient: 331 us for 1024 x 49152,
// 436 us for 512 x 129280. Of a row of 129,280 the last 63,744 logits are read twice. Between the two
// readings a block reads or writes some 386 KB, 128 blocks 49 MB: L2 holds 72, so the second, 131 MB in all,
// comes from there, at some 5 TB/s in at most 26 us. bf16 logits: 221 us and 291 us.
//
// One block fits a multiprocessor, with nothing beside it to fill its gaps: it loads a whole row, waits,
// makes its two exponentials an element, some 5 us of the 41 that a row of 49,152 may take, and writes. Other
// multiprocessors' blocks use the memory meanwhile, once they have drifted apart; the first of 8 rounds they
// all wait together. So up to 10% more than predicted would be no surprise.
#include <bit>
#include <type_traits>

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

// How a thread's N elements lie in a step of the block: in accesses of up to 16 bytes, which the lanes of a
// warp take in order. So fp32 logits of a bf16 gradient, N = 8, lie as in a tile of simt/floats.h.
template <class L, int N>
struct Lay {
  static constexpr int kAccess = N < kVec<L> ? N : kVec<L>, kAccesses = N / kAccess;
  // Element i's column, from the thread's first.
  static constexpr __device__ int column(int i) {
    return i / kAccess * simt::kWarpSize * kAccess + i % kAccess;
  }
  static __device__ int warp_first() { return simt::warp() * simt::kWarpSize * N; }
  static __device__ int first() { return warp_first() + simt::lane() * kAccess; }
};

// N logits as stored: in whole words where they fill one, or the compiler would keep each half of a word in a
// register of its own.
template <class L, int N>
struct Piece {
  static constexpr int kAccess = Lay<L, N>::kAccess, kBytes = kAccess * int(sizeof(L));
  using Word = std::conditional_t<kBytes % 4 == 0, uint32_t, L>;
  simt::Vec<Word, kBytes / sizeof(Word)> accesses[Lay<L, N>::kAccesses];

  // Calls body(access, column) for each access that begins before `end` columns.
  template <class Body>
  static __device__ void for_accesses(int first, int end, const Body& body) {
#pragma unroll
    for (int k = 0; k < Lay<L, N>::kAccesses; ++k) {
      const int column = first + Lay<L, N>::column(k * kAccess);
      if (column < end) body(k, column);
    }
  }
  // row: in global or shared memory.
  __device__ void load(const L* row, int first, int end) {
    for_accesses(first, end, [&](int k, int column) {
      accesses[k] = simt::load_vec<kBytes / sizeof(Word)>(reinterpret_cast<const Word*>(row + column));
    });
  }
  __device__ float operator[](int i) const {
    const auto& words = accesses[i / kAccess];
    const int j = i % kAccess;
    if constexpr (sizeof(Word) == sizeof(L)) {
      return float(std::bit_cast<L>(words[j]));
    } else {
      return j % 2 ? ptx::high_bf16(words[j / 2]) : ptx::low_bf16(words[j / 2]);
    }
  }
};

// A piece's logits, of which those at or past V count as -infinity.
template <class L, int N>
__device__ inline void unpack(float (&x)[N], const Piece<L, N>& logits, int first, int V) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = first + Lay<L, N>::column(i) < V ? logits[i] : -INFINITY;
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

// What turns a row's logits into their gradient.
struct Gradient {
  float lse, factor;
  int target;

  // Of the row's first `end` columns. All lanes of the warp.
  template <class L, int N, class G>
  __device__ void write(G* d_row, int first, int end, float (&x)[N]) const {
    using At = Lay<L, N>;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x[i] = factor * expf(x[i] - lse) - (first + At::column(i) == target ? 1.f : 0.f);
    }
    if constexpr (At::kAccesses == 1) {
      if (first < end) simt::store_floats(d_row + first, x);
    } else {
      const auto eight = simt::eight_bf16(x);
      const int column = first - simt::lane() * At::kAccess + simt::eight_of_lane();
      if (column < end) simt::store_vec(reinterpret_cast<uint32_t*>(d_row + column), eight);
    }
  }
};

template <class L, int N, int kShared>
struct RowPlan : Plan {
  L pieces[kShared][kThreads * N];  // a thread reads what it copied itself
};
template <class L, int N>
struct RowPlan<L, N, 0> : Plan {};

// L: logits' type, G: gradient's, N: elements of a thread in a step. Of the steps of a row the first kKept
// are kept in registers, the next kShared in shared memory, and the rest is read twice.
template <class L, class G, int N, int kKept, int kShared>
__global__ void __launch_bounds__(kThreads, 1) cross_entropy_kernel(CrossEntropy a) {
  auto& plan = simt::shared<RowPlan<L, N, kShared>>();
  const int64_t row = blockIdx.x;
  const int32_t target = simt::load(a.targets + row);
  const L* logits = static_cast<const L*>(a.logits) + row * a.stride;
  G* d_logits = a.d_logits ? static_cast<G*>(a.d_logits) + row * a.stride : nullptr;
  constexpr int kStep = kThreads * N;
  const int stride = int(a.stride), V = int(a.V);

  if (target < 0) {
    if (threadIdx.x == 0 && a.row_loss) simt::store(a.row_loss + row, 0.f);
    float zeros[N] = {};
    if (!d_logits) return;
    for (int column = int(threadIdx.x) * N; column < stride; column += kStep) {
      simt::store_floats(d_logits + column, zeros);
    }
    return;
  }

  const int first = Lay<L, N>::first();
  if constexpr (kShared > 0) {
    for (int p = 0; p < kShared; ++p) {
      constexpr int kBytes = Piece<L, N>::kBytes;
      Piece<L, N>::for_accesses(first, stride - (kKept + p) * kStep, [&](int, int column) {
        ptx::copy_async<kBytes>(&plan.pieces[p][column], logits + (kKept + p) * kStep + column);
      });
    }
    ptx::commit_copies();
  }
  Piece<L, N> kept[kKept > 0 ? kKept : 1];  // as stored: in fp32 they would not fit the registers
#pragma unroll
  for (int p = 0; p < kKept; ++p) kept[p].load(logits, first + p * kStep, stride);
  // Calls body(x, column) for each of the warp's steps, with the thread's logits as floats and the column of
  // its first.
  const auto for_pieces = [&](const auto& body) {
    float x[N];
    const int end = stride - Lay<L, N>::warp_first();  // of the steps' beginnings, the same for a whole warp
    const auto call = [&](const Piece<L, N>& piece, int step) {
      unpack(x, piece, first + step, V);
      body(x, first + step);
    };
#pragma unroll
    for (int p = 0; p < kKept; ++p) {
      if (p * kStep < end) call(kept[p], p * kStep);
    }
    int step = kKept * kStep;
    Piece<L, N> piece = {};
    if constexpr (kShared > 0) {
      for (int p = 0; p < kShared && step < end; ++p, step += kStep) {
        piece.load(plan.pieces[p], first, stride - step);
        call(piece, step);
      }
    }
    for (; step < end; step += kStep) {
      piece.load(logits, first + step, stride);
      call(piece, step);
    }
  };

  // The target's logit, before a gradient takes its place.
  const float wanted = threadIdx.x == 0 ? float(simt::load(logits + target)) : 0.f;
  if constexpr (kShared > 0) ptx::wait_copies<0>();
  Softmax s;
  for_pieces([&](float(&x)[N], int) { add_logits(s, x); });
  s = block_softmax(plan, s);
  const float lse = s.top + logf(s.sum);
  if (threadIdx.x == 0 && a.row_loss) simt::store(a.row_loss + row, lse - wanted);
  if (!d_logits) return;
  const Gradient gradient{lse, 1.f + 2.f * a.z_loss * lse, target};
  for_pieces([&](float(&x)[N], int column) { gradient.template write<L>(d_logits, column, stride, x); });
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
  constexpr int N = kVec<G>;
  constexpr int64_t kStep = int64_t(kThreads) * N;
  // A thread keeps 48 registers of logits: 24,576 in fp32, 49,152 in bf16; or 80 and 192 bytes of the block's
  // shared memory: 65,536, or 131,072.
  constexpr int kBytes = N * sizeof(L), kNarrow = 48 * 4 / kBytes, kWide = 80 * 4 / kBytes;
  constexpr int kShared = 192 / kBytes;
  const auto launch = [&](auto kernel, size_t shared_bytes) {
    simt::launch(kernel, {{a.rows}, kThreads, shared_bytes, stream, "cross_entropy"}, a);
  };
  if (a.stride % N != 0) {
    launch(cross_entropy_kernel<L, G, 1, 0, 0>, sizeof(Plan));
  } else if (a.stride <= kStep * kNarrow) {
    launch(cross_entropy_kernel<L, G, N, kNarrow, 0>, sizeof(Plan));
  } else {
    launch(cross_entropy_kernel<L, G, N, kWide, kShared>, sizeof(RowPlan<L, N, kShared>));
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
