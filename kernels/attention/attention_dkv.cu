// The gradients of keys and values. A block owns 64 keys of one head, 16 a warp, and walks the queries that
// see them, 32 at a time, for all the query heads of the group or a part of them: their sums stay in its
// registers, and every order of blocks gives the same bits. Scores are made transposed, [key, query]: their
// fragments are then the left factors of both sums without a way through shared memory. The values stay in
// registers as fragments, the keys in shared memory.
//
// A step at head size 128, per warp: 128 mma (32 each for scores, values . d_out, dv and dk) and
// 72 ldmatrix.x4. FLOPs: 8 K a pair of query and key; with dq's 6 K that is 1.4 times what a
// backward pass with atomic sums of dq takes, which would instead write and read 64 KB of fp32 for every 64 x 64
// pairs. Bytes: keys, values, dk and dv once; queries, d_out and statistics once a tile of keys, from L2.
//
// B KV T / 64 blocks, of which the longest take T / 64 times the shortest, are too few where key heads are
// few. So the heads of a group are divided among several blocks, which leave their sums in fp32 to a second
// kernel; the parts are fewer than 1,024 blocks' of 64 KB. One block of eight warps an SM, half the steps each,
// would need no memory, but would idle at one barrier for all and leave half the SMs without work at half the
// batch.
#include "kernels/attention/attention_backward_cuda.h"
#include "kernels/simt/floats.h"

namespace genesis::cuda {
namespace {

struct Statistics {
  simt::Vec<float, 2> x[kStep];
  int32_t positions[kStep];
};

template <int width>
struct Plan {
  bf16 keys[kTile * width];
  bf16 stage[2][2 * kStep * width];  // a step's queries, and their d_out
  Statistics statistics[2];
};

// The first query head of the blocks at place x in the grid: a key head's group of them, or a part of it.
__device__ inline int first_head(const AttentionShape& s, int x) { return x * int(s.H) / int(gridDim.x); }

// Past the last query that sees any of the block's keys, to a whole tile: all of them, but for documents. All lanes
// of the warp.
__device__ inline int queries_end(const AttentionBackward& a, const AttentionWorkspace& workspace) {
  const int tiles = int(gridDim.z), keys_end = (int(blockIdx.z) + 1) * kTile;
  if (!a.positions) return tiles * kTile;
  int end = 0;
#pragma unroll 1
  for (int tile = int(blockIdx.z) + simt::lane(); tile < tiles; tile += simt::kWarpSize) {
    if (simt::load(workspace.first_keys + int(blockIdx.y) * tiles + tile) < keys_end) end = tile + 1;
  }
#pragma unroll
  for (int bits = simt::kWarpSize / 2; bits > 0; bits /= 2) end = std::max(end, simt::shuffle_xor(end, bits));
  return end * kTile;
}

// Some queries of a head. The steps of a block are those of each of some heads, from the block's own tile on.
struct Step {
  int head, t0;
};

// The scores [key, query] of the queries that do not see a key become minus infinity.
__device__ inline void mask_queries(Sums<kStep>& scores, int first_key, int t0, const int32_t* positions) {
#pragma unroll
  for (int block = 0; block < kStep / 8; ++block) {
    const int column = block * 8 + fragment_column();
    simt::Vec<int32_t, 2> at = {};
    if (positions) at = simt::load_vec<2>(positions + column);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first_key + fragment_row() + i / 2 * 8, t = t0 + column + i % 2;
      const int first = positions ? t - at[i % 2] : 0;
      if (key > t || key < first) scores[block][i] = -INFINITY;
    }
  }
}

// Stores a warp's 16 rows of sums in fp32, times a factor: a sector for every 4 lanes.
template <int width>
__device__ inline void store_sums(float* rows, int64_t stride, int rows_left, int K, const Sums<width>& d,
                                  float factor) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = fragment_row() + 8 * half;
#pragma unroll
    for (int block = 0; block < width / 8; ++block) {
      const int column = block * 8 + fragment_column();
      if (row < rows_left && column < K) {
        simt::store_vec(rows + row * stride + column,
                        simt::Vec<float, 2>{{d[block][2 * half] * factor, d[block][2 * half + 1] * factor}});
      }
    }
  }
}

template <int width>
__global__ void __launch_bounds__(kThreads, blocks_on_multiprocessor(width))
    attention_dkv_kernel(AttentionBackward a, AttentionWorkspace workspace, float factor) {
  auto& plan = simt::shared<Plan<width>>();
  const AttentionShape& s = a.shape;
  const int H = int(s.H), KV = int(s.KV), heads = H + 2 * KV;
  const int kv = first_head(s, int(blockIdx.x)) / (H / KV), b = int(blockIdx.y);
  const int key_tile = int(blockIdx.z), first_key = key_tile * kTile, T = int(s.T);
  const bool documents = a.positions;
  const int t_end = std::min(queries_end(a, workspace), T), head_end = first_head(s, int(blockIdx.x) + 1);
  Step step = {first_head(s, int(blockIdx.x)), first_key};
  const auto next_step = [&] {
    step.t0 += kStep;
    if (step.t0 < t_end) return;
    step.t0 = first_key;
    ++step.head;
  };

  const auto start_copy = [&](int stage) {
    if (step.head < head_end) {
      copy_tile<kStep, width>(plan.stage[stage], head_rows(s, a.qkv, b, heads, step.head), step.t0);
      copy_tile<kStep, width>(plan.stage[stage] + kStep * width, head_rows(s, a.d_out, b, H, step.head),
                              step.t0);
      const int i = simt::lane(), t = step.t0 + i;
      if (simt::warp() == 0) {
        ptx::copy_async<8>(&plan.statistics[stage].x[i], workspace.statistics + (b * H + step.head) * T + t,
                           t < T ? 8 : 0);
      } else if (simt::warp() == 1 && documents) {
        ptx::copy_async<4>(&plan.statistics[stage].positions[i], a.positions + b * T + t, t < T ? 4 : 0);
      }
    }
    ptx::commit_copies();
  };
  copy_tile<kTile, width>(plan.keys, head_rows(s, a.qkv, b, heads, H + kv), first_key);
  copy_tile<kTile, width>(plan.stage[1], head_rows(s, a.qkv, b, heads, H + KV + kv), first_key);
  ptx::commit_copies();
  start_copy(0);

  const int warp_row = simt::warp() * kWarpRows, warp_key = first_key + warp_row;
  uint32_t value[width / 16][4];
  ptx::wait_copies<1>();
  simt::sync_threads();
#pragma unroll
  for (int k = 0; k < width / 16; ++k) load_a<width>(value[k], plan.stage[1], warp_row, k);

  Sums<width> dk = {}, dv = {};
  for (int stage = 0; step.head < head_end; stage ^= 1) {
    ptx::wait_copies<0>();
    simt::sync_threads();
    const int t0 = step.t0;
    next_step();
    start_copy(stage ^ 1);
    if (t0 + kStep <= warp_key) continue;  // before all the warp's keys
    const bf16 *queries = plan.stage[stage], *d_outs = queries + kStep * width;
    Sums<kStep> p = {}, d_scores = {};  // [key, query]
#pragma unroll
    for (int k = 0; k < width / 16; ++k) {
      uint32_t key[4];
      load_a<width>(key, plan.keys, warp_row, k);
      multiply_rows<width, kStep>(p, key, queries, k);
      multiply_rows<width, kStep>(d_scores, value[k], d_outs, k);
    }
    if (t0 < warp_key + kWarpRows || documents) {
      mask_queries(p, warp_key, t0, documents ? plan.statistics[stage].positions : nullptr);
    }
#pragma unroll
    for (int block = 0; block < kStep / 8; ++block) {
      const auto at = simt::load_vec<4>(&plan.statistics[stage].x[block * 8 + fragment_column()].v[0]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[block][i] = ptx::exp2_approx(fmaf(p[block][i], factor, -at[i % 2 * 2]));
        d_scores[block][i] = p[block][i] * (d_scores[block][i] - at[i % 2 * 2 + 1]);
      }
    }
    multiply_add<width, kStep>(dv, p, d_outs);
    multiply_add<width, kStep>(dk, d_scores, queries);
  }

  const int rows_left = T - warp_key, K = int(s.K);
  if (int(gridDim.x) > KV) {
    const int64_t stride = 2 * int64_t(gridDim.x) * K;
    float* rows = workspace.parts + (b * s.T + warp_key) * stride + int64_t(blockIdx.x) * K;
    store_sums<width>(rows, stride, rows_left, K, dk, s.scale);
    store_sums<width>(rows + stride / 2, stride, rows_left, K, dv, 1.f);
  } else {
    bf16* rows = static_cast<bf16*>(a.d_qkv) + ((b * s.T + warp_key) * heads + H + int(blockIdx.x)) * s.K;
    store_rows<width>(rows, heads * s.K, rows_left, K, dk, {s.scale, s.scale});
    store_rows<width>(rows + KV * s.K, heads * s.K, rows_left, K, dv, {1.f, 1.f});
  }
}

// Adds up the parts, in order. A thread takes 16 bytes of each: with 32, its loads would touch each sector twice.
constexpr int kSumThreads = 256;

__global__ void __launch_bounds__(kSumThreads)
    attention_dkv_sum_kernel(AttentionShape s, const float* parts, int count, bf16* d_qkv) {
  constexpr int kVec = simt::kVec<float>;
  const int64_t i = (int64_t(blockIdx.x) * kSumThreads + threadIdx.x) * kVec;
  if (i >= key_value_elements(s)) return;
  const float* x = parts + i / s.K * count * s.K + i % s.K;
  float sum[kVec] = {};
  for (int part = 0; part < count; ++part) {
    const auto terms = simt::load_vec<kVec, simt::Cache::once>(x + part * s.K);
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum[j] += terms[j];
  }
  const int64_t width = 2 * s.KV * s.K;
  simt::store_floats(d_qkv + i / width * (s.H * s.K + width) + s.H * s.K + i % width, sum);
}

template <int width>
void launch_dkv(const AttentionBackward& a, Stream stream) {
  const AttentionShape& s = a.shape;
  const int64_t parts = head_parts(s);
  const AttentionWorkspace workspace(s, a.workspace);
  simt::launch(attention_dkv_kernel<width>,
               {.grid = {s.KV * parts, s.B, query_tiles(s)},
                .block = kThreads,
                .shared_bytes = sizeof(Plan<width>),
                .stream = stream,
                .name = "attention_dkv"},
               a, workspace, s.scale * kLog2e);
  if (parts == 1) return;
  constexpr int64_t kOfBlock = kSumThreads * simt::kVec<float>;
  simt::launch(attention_dkv_sum_kernel,
               {.grid = {block_count(key_value_elements(s), kOfBlock)},
                .block = kSumThreads,
                .stream = stream,
                .name = "attention_dkv_sum"},
               s, workspace.parts, int(parts), static_cast<bf16*>(a.d_qkv));
}

}  // namespace

void attention_dkv(const AttentionBackward& a, Stream stream) {
  a.shape.K <= 64 ? launch_dkv<64>(a, stream) : launch_dkv<128>(a, stream);
}

}  // namespace genesis::cuda
