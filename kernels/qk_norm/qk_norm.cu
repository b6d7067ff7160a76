// Memory-bound. A warp takes a row, as in rope.cu: groups of lanes a head each, a lane P pairs of it, whose sines and
// cosines serve all of the row's heads. What a lane has of a head stays in registers from its load to its store.
//
// Bytes, of bf16: forward 4 (H + 2 KV) K a row; backward 6 (H + KV) K, the values' gradients being left alone. Blocks
// read the weights once each, and backward leave their sum of the weights' gradients, so there are no more of those
// than keep the memory busy.
#include <algorithm>

#include "kernels/common/block_count.h"
#include "kernels/common/dispatch.h"
#include "kernels/common/error.h"
#include "kernels/qk_norm/qk_norm.h"
#include "kernels/rmsnorm/rmsnorm_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {
namespace {

using simt::kVec;
using simt::kWarpSize;

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
// The same on every card, because the weights' gradients are summed by blocks.
constexpr int64_t kBackwardBlocks = 256;

// How a warp's lanes share out a row's heads.
struct Sharing {
  int64_t row = 0;  // elements from row to row
  int half = 0;     // pairs of a head
  int lanes = 0;    // of a group, a power of two; the last may have nothing to do
};

// Pairs of a head: pieces of P, the lane's `lanes` of a group apart. Past the head's end there are zeros.
template <int P, int Pieces>
struct Pairs {
  float first[Pieces][P], second[Pieces][P];

  // body(first, second, p, j) for each pair.
  template <class Body>
  __device__ void each(const Body& body) {
#pragma unroll
    for (int p = 0; p < Pieces; ++p) {
#pragma unroll
      for (int j = 0; j < P; ++j) body(first[p][j], second[p][j], p, j);
    }
  }
};

// Where four columns from `column` on stand in BackwardPlan (rmsnorm.cu says why). Runs of fewer keep together.
__device__ inline int place_of(int column) { return column ^ (column >> 3 & 4); }

template <int N>
__device__ inline void store_run(const float (&run)[N], int column, float* columns) {
  constexpr int kAccess = N < 4 ? N : 4;
#pragma unroll
  for (int i = 0; i < N; i += kAccess) {
    simt::Vec<float, kAccess> v;
#pragma unroll
    for (int j = 0; j < kAccess; ++j) v[j] = run[i + j];
    simt::store_vec<simt::Cache::none>(columns + place_of(column + i), v);
  }
}

template <bool interleaved_, int P_, int Pieces_>
struct Layout {
  static constexpr bool interleaved = interleaved_;
  static constexpr int P = P_, Pieces = Pieces_;
  using Pairs = cuda::Pairs<P, Pieces>;
};

template <class L>
class Lane {
 public:
  static constexpr int P = L::P, Pieces = L::Pieces;
  using Pairs = typename L::Pairs;

  __device__ explicit Lane(const Sharing& s)
      : s_(s), groups_(kWarpSize / s.lanes), group_(simt::lane() / s.lanes), own_(simt::lane() % s.lanes) {}

  __device__ int groups() const { return groups_; }
  __device__ int group() const { return group_; }
  __device__ int lanes() const { return s_.lanes; }
  __device__ int pair(int p) const { return (p * s_.lanes + own_) * P; }  // the first of a piece
  __device__ bool has(int p) const { return pair(p) < s_.half; }

  template <class T>
  __device__ void load(Pairs& x, const T* head, bool there) const {
#pragma unroll
    for (int p = 0; p < Pieces; ++p) {
      if (there && has(p)) {
        load_piece(x, p, head);
      } else {
#pragma unroll
        for (int j = 0; j < P; ++j) x.first[p][j] = x.second[p][j] = 0.f;
      }
    }
  }
  template <class T>
  __device__ void store(const Pairs& x, T* head, bool there) const {
#pragma unroll
    for (int p = 0; p < Pieces; ++p) {
      if (there && has(p))
        store_piece(x, p, [&](int column, const auto& run) { simt::store_floats(head + column, run); });
    }
  }
  // The first group's, to shared memory in the order of place_of.
  __device__ void store_sums(const Pairs& x, float* columns) const {
#pragma unroll
    for (int p = 0; p < Pieces; ++p) {
      if (group_ == 0 && has(p))
        store_piece(x, p, [&](int column, const auto& run) { store_run(run, column, columns); });
    }
  }

  // Over a group. Every lane of it gets the same bits.
  __device__ float sum(float x) const {
    for (int bits = s_.lanes / 2; bits > 0; bits /= 2) x += simt::shuffle_xor(x, bits);
    return x;
  }
  // Over the groups, lane by lane.
  __device__ float sum_of_groups(float x) const {
    for (int bits = s_.lanes; bits < kWarpSize; bits *= 2) x += simt::shuffle_xor(x, bits);
    return x;
  }

  __device__ void angles(Angle (&angle)[Pieces][P], int64_t position, const RopeFrequencies& f) const {
#pragma unroll
    for (int p = 0; p < Pieces; ++p) {
#pragma unroll
      for (int j = 0; j < P; ++j) {
        const int i = has(p) ? pair(p) + j : 0;
        angle[p][j] = angle_of(uint32_t(uint64_t(position) * f.turns[i] >> 32));
      }
    }
  }

 private:
  template <class T>
  __device__ void load_piece(Pairs& x, int p, const T* head) const {
    if constexpr (L::interleaved) {
      float both[2 * P];
      simt::load_floats(both, head + 2 * pair(p));
#pragma unroll
      for (int j = 0; j < P; ++j) x.first[p][j] = both[2 * j], x.second[p][j] = both[2 * j + 1];
    } else {
      simt::load_floats(x.first[p], head + pair(p));
      simt::load_floats(x.second[p], head + s_.half + pair(p));
    }
  }
  // run(column, floats) for each run of columns that are side by side.
  template <class Run>
  __device__ void store_piece(const Pairs& x, int p, const Run& run) const {
    if constexpr (L::interleaved) {
      float both[2 * P];
#pragma unroll
      for (int j = 0; j < P; ++j) both[2 * j] = x.first[p][j], both[2 * j + 1] = x.second[p][j];
      run(2 * pair(p), both);
    } else {
      run(pair(p), x.first[p]);
      run(s_.half + pair(p), x.second[p]);
    }
  }

  Sharing s_;
  int groups_, group_, own_;
};

__device__ inline void turn(float& first, float& second, const Angle& angle) {
  const float a = first, b = second;
  first = a * angle.cosine - b * angle.sine;
  second = b * angle.cosine + a * angle.sine;
}

template <class P>
__device__ inline float squares(P& x) {
  float sum = 0.f;
  x.each([&](float& first, float& second, int, int) { sum += first * first + second * second; });
  return sum;
}

// The weights: of the queries, of the keys.
template <class T>
struct Weights {
  T weight[2][kRopeLargestHead];
};

// In accesses of 16 bytes where the head's pairs are moved so, element by element where P is 1.
template <class L, class T>
__device__ inline void load_weights(Weights<T>& plan, const void* q, const void* k, int K) {
  constexpr int N = L::P == 1 ? 1 : kVec<T>;
  static_assert(kThreads >= kRopeLargestHead);
  const int i = int(threadIdx.x) * N;
  if (i < K) {
    simt::store_vec<simt::Cache::none>(&plan.weight[0][i], simt::load_vec<N>(static_cast<const T*>(q) + i));
    simt::store_vec<simt::Cache::none>(&plan.weight[1][i], simt::load_vec<N>(static_cast<const T*>(k) + i));
  }
  simt::sync_threads();
}

// A row's values, from one array to another.
template <class L, class T>
__device__ inline void copy_values(const T* from, T* to, int n) {
  constexpr int N = L::P == 1 ? 1 : kVec<T>;
#pragma unroll 4
  for (int i = simt::lane() * N; i < n; i += kWarpSize * N)
    simt::store_vec(to + i, simt::load_vec<N>(from + i));
}

// Told nothing of the three blocks a multiprocessor, ptxas saves registers until it needs a stack.
template <class T, class L>
__global__ void __launch_bounds__(kThreads, 3)
    qk_norm_forward_kernel(QkNormForward a, Sharing s, RopeFrequencies f) {
  auto& plan = simt::shared<Weights<T>>();
  const int K = int(a.shape.K);
  load_weights<L>(plan, a.q_weight, a.k_weight, K);
  const int64_t row = int64_t(blockIdx.x) * kWarps + simt::warp();
  if (row >= a.shape.rows) return;
  const Lane<L> lane(s);
  Angle angles[L::Pieces][L::P];
  lane.angles(angles, simt::load(a.positions + row), f);
  const T* from = static_cast<const T*>(a.qkv) + row * s.row;
  T* to = static_cast<T*>(a.rotated) + row * s.row;
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    const int heads = int(part ? a.shape.KV : a.shape.H);
    typename L::Pairs weight;
    lane.load(weight, plan.weight[part], true);
    for (int first = 0; first < heads; first += lane.groups()) {
      const int head = first + lane.group();
      typename L::Pairs x;
      lane.load(x, from + int64_t(head) * K, head < heads);
      const float rstd = 1.f / sqrtf(lane.sum(squares(x)) / float(K) + a.shape.eps);
      x.each([&](float& one, float& two, int p, int j) {
        one *= rstd * weight.first[p][j];
        two *= rstd * weight.second[p][j];
        turn(one, two, angles[p][j]);
      });
      lane.store(x, to + int64_t(head) * K, head < heads);
    }
    from += int64_t(heads) * K;
    to += int64_t(heads) * K;
  }
  copy_values<L>(from, to, int(a.shape.KV) * K);
}

template <class T>
struct BackwardPlan : Weights<T> {
  float d_weight[kWarps][kRopeLargestHead];  // the warps' sums, columns in the order of place_of
};

// One row's heads of one part: their gradients, and what they add to the weight's.
template <class T, class L>
__device__ inline void backward_heads(const Lane<L>& lane, int heads, int K, float eps, const T* from, T* d,
                                      const Angle (&angles)[L::Pieces][L::P], typename L::Pairs& weight,
                                      typename L::Pairs& d_weight) {
  for (int first = 0; first < heads; first += lane.groups()) {
    const int head = first + lane.group();
    typename L::Pairs x, g;
    lane.load(x, from + int64_t(head) * K, head < heads);
    lane.load(g, d + int64_t(head) * K, head < heads);
    float dot = 0.f;
    g.each([&](float& one, float& two, int p, int j) {
      turn(one, two, angles[p][j]);
      dot += one * weight.first[p][j] * x.first[p][j] + two * weight.second[p][j] * x.second[p][j];
    });
    const float rstd = 1.f / sqrtf(lane.sum(squares(x)) / float(K) + eps);
    const float mean = lane.sum(dot) / float(K) * rstd * rstd;
    g.each([&](float& one, float& two, int p, int j) {
      d_weight.first[p][j] += one * (x.first[p][j] * rstd);
      d_weight.second[p][j] += two * (x.second[p][j] * rstd);
      one = rstd * (one * weight.first[p][j] - x.first[p][j] * mean);
      two = rstd * (two * weight.second[p][j] - x.second[p][j] * mean);
    });
    lane.store(g, d + int64_t(head) * K, head < heads);
  }
}

// The block's sum of a weight's gradient to `partial`, warp after warp, so that the order is fixed.
template <class T, class L>
__device__ inline void store_sum(BackwardPlan<T>& plan, const Lane<L>& lane, typename L::Pairs& d_weight,
                                 int K, float* partial) {
  d_weight.each([&](float& one, float& two, int, int) {
    one = lane.sum_of_groups(one);
    two = lane.sum_of_groups(two);
  });
  lane.store_sums(d_weight, plan.d_weight[simt::warp()]);
  simt::sync_threads();
  constexpr int N = L::P == 1 ? 1 : 4;
  for (int column = int(threadIdx.x) * N; column < K; column += kThreads * N) {
    float sum[N] = {}, part[N];
    for (int warp = 0; warp < kWarps; ++warp) {
      simt::load_floats(part, &plan.d_weight[warp][place_of(column)]);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += part[i];
    }
    simt::store_floats(partial + column, sum);
  }
  simt::sync_threads();
}

template <class T, class L>
__global__ void __launch_bounds__(kThreads, 2)
    qk_norm_backward_kernel(QkNormBackward a, Sharing s, RopeFrequencies f) {
  auto& plan = simt::shared<BackwardPlan<T>>();
  const int K = int(a.shape.K);
  load_weights<L>(plan, a.q_weight, a.k_weight, K);
  const Lane<L> lane(s);
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    const int heads = int(part ? a.shape.KV : a.shape.H);
    const int64_t offset = part ? a.shape.H * K : 0;
    typename L::Pairs weight, d_weight;
    lane.load(weight, plan.weight[part], true);
    d_weight.each([](float& one, float& two, int, int) { one = two = 0.f; });
    for (int64_t row = int64_t(blockIdx.x) * kWarps + simt::warp(); row < a.shape.rows;
         row += int64_t(gridDim.x) * kWarps) {
      Angle angles[L::Pieces][L::P];
      lane.angles(angles, -int64_t(simt::load(a.positions + row)), f);
      const int64_t at = row * s.row + offset;
      backward_heads<T, L>(lane, heads, K, a.shape.eps, static_cast<const T*>(a.qkv) + at,
                           static_cast<T*>(a.d_qkv) + at, angles, weight, d_weight);
    }
    float* partials = static_cast<float*>(a.workspace) + part * int64_t(gridDim.x) * K;
    store_sum<T, L>(plan, lane, d_weight, K, partials + int64_t(blockIdx.x) * K);
  }
}

// Calls body.template operator()<T, Layout>(sharing): as many pairs a lane as make accesses of 16 bytes, where they
// divide a head and a warp's lanes hold one; else one pair an access.
template <class Body>
void for_layout(const QkNormShape& s, const Body& body) {
  require(s.K % 2 == 0 && s.K <= kRopeLargestHead, "qk_norm takes an even head size, up to 256");
  const int half = int(s.K / 2);
  const auto lanes = [&](int P) {
    int n = 1;
    while (n < half / P) n *= 2;
    return n;
  };
  const auto of_type = [&]<class T, bool interleaved>() {
    constexpr int kPairs = interleaved ? kVec<T> / 2 : kVec<T>;
    if (half % kPairs == 0 && half / kPairs <= kWarpSize) {
      body.template operator()<T, Layout<interleaved, kPairs, 1>>(Sharing{s.row(), half, lanes(kPairs)});
    } else {
      constexpr int kPieces = int(kRopeLargestHead) / 2 / kWarpSize;
      body.template operator()<T, Layout<interleaved, 1, kPieces>>(
          Sharing{s.row(), half, std::min(kWarpSize, lanes(1))});
    }
  };
  with_float_type(s.dtype, [&](auto t) {
    using T = decltype(t);
    s.interleaved ? of_type.template operator()<T, true>() : of_type.template operator()<T, false>();
  });
}

int64_t backward_blocks(int64_t rows) { return std::min(block_count(rows, kWarps), kBackwardBlocks); }

}  // namespace

void qk_norm_forward(const QkNormForward& a, Stream stream) {
  for_layout(a.shape, [&]<class T, class L>(const Sharing& sharing) {
    simt::launch(
        qk_norm_forward_kernel<T, L>,
        {{block_count(a.shape.rows, kWarps)}, kThreads, sizeof(Weights<T>), stream, "qk_norm_forward"}, a,
        sharing, rope_frequencies(a.shape.theta, a.shape.K));
  });
}

size_t qk_norm_backward_workspace(int64_t rows, int64_t K) {
  return size_t(backward_blocks(rows) * 2 * K) * sizeof(float);
}

void qk_norm_backward(const QkNormBackward& a, Stream stream) {
  const int64_t blocks = backward_blocks(a.shape.rows);
  for_layout(a.shape, [&]<class T, class L>(const Sharing& sharing) {
    simt::launch(qk_norm_backward_kernel<T, L>,
                 {{blocks}, kThreads, sizeof(BackwardPlan<T>), stream, "qk_norm_backward"}, a, sharing,
                 rope_frequencies(a.shape.theta, a.shape.K));
  });
  const float* partials = static_cast<const float*>(a.workspace);
  add_norm_weight(a.shape.K, blocks, partials, a.d_q_weight, stream);
  add_norm_weight(a.shape.K, blocks, partials + blocks * a.shape.K, a.d_k_weight, stream);
}

}  // namespace genesis::cuda
