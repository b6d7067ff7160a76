// The gradient of the queries, and what the gradients of keys and values need besides: each query's
// statistics. As in the forward pass a block owns 64 queries, 16 a warp, and walks their keys, here 32 at a
// time: the scores and d_out . values are made again, and their product with the keys is summed in registers.
// Queries and d_out stay in registers as fragments.
//
// A step at head size 128, per warp: 96 mma (32 each for scores, d_out . values and dq) and 48
// ldmatrix.x4. FLOPs: 6 K a pair of query and key. Bytes: queries, d_out, out and dq once; keys
// and values once a tile of queries, from L2.
#include "kernels/attention/attention_backward_cuda.h"

namespace genesis::cuda {
namespace {

template <int width>
struct Plan {
  bf16 tile[3][kTile * width];  // a step's keys and values
};

// Of a warp's two rows a lane: sum_i out_i d_out_i.
template <int width>
__device__ inline void mean_of_rows(float (&mean)[2], const uint32_t (&d_out)[width / 16][4], const bf16* out,
                                    int row) {
#pragma unroll
  for (int k = 0; k < width / 16; ++k) {
    uint32_t o[4];
    load_a<width>(o, out, row, k);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      mean[i % 2] = fmaf(ptx::low_bf16(o[i]), ptx::low_bf16(d_out[k][i]), mean[i % 2]);
      mean[i % 2] = fmaf(ptx::high_bf16(o[i]), ptx::high_bf16(d_out[k][i]), mean[i % 2]);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) mean[half] = simt::warp_sum<4>(mean[half]);
}

template <int width>
__global__ void __launch_bounds__(kThreads, blocks_on_multiprocessor(width))
    attention_dq_kernel(AttentionBackward a, AttentionWorkspace workspace, float factor) {
  auto& plan = simt::shared<Plan<width>>();
  const AttentionShape& s = a.shape;
  const int H = int(s.H), KV = int(s.KV), heads = H + 2 * KV;
  const int h = int(blockIdx.x), b = int(blockIdx.y), kv = h / (H / KV);
  const int query_tile = int(gridDim.z - 1 - blockIdx.z), t0 = query_tile * kTile, T = int(s.T);
  const HeadRows keys = head_rows(s, a.qkv, b, heads, H + kv),
                 values = head_rows(s, a.qkv, b, heads, H + KV + kv);
  const int32_t* positions = a.positions ? a.positions + b * s.T : nullptr;
  const FirstKeys first_keys = first_keys_of_tile(positions, t0, T);
  const int first_step = first_keys.low / kStep,
            steps = block_count(std::min(t0 + kTile, T), kStep) - first_step;

  const auto start_copy = [&](int n, int slot) {
    if (n < steps) {
      copy_tile<kStep, width>(plan.tile[slot], keys, (first_step + n) * kStep);
      copy_tile<kStep, width>(plan.tile[slot] + kStep * width, values, (first_step + n) * kStep);
    }
    ptx::commit_copies();
  };
  // Before the steps, the block's own rows.
  copy_tile<kTile, width>(plan.tile[0], head_rows(s, a.qkv, b, heads, h), t0);
  ptx::commit_copies();
  copy_tile<kTile, width>(plan.tile[1], head_rows(s, a.d_out, b, H, h), t0);
  ptx::commit_copies();
  copy_tile<kTile, width>(plan.tile[2], head_rows(s, a.out, b, H, h), t0);
  ptx::commit_copies();

  const int warp_row = simt::warp() * kWarpRows, warp_t = t0 + warp_row;
  const QueryRows rows(positions, warp_t, T);
  uint32_t query[width / 16][4], d_out[width / 16][4];
  ptx::wait_copies<2>();
  simt::sync_threads();
#pragma unroll
  for (int k = 0; k < width / 16; ++k) load_a<width>(query[k], plan.tile[0], warp_row, k);
  ptx::wait_copies<1>();
  simt::sync_threads();
  start_copy(0, 0);
#pragma unroll
  for (int k = 0; k < width / 16; ++k) load_a<width>(d_out[k], plan.tile[1], warp_row, k);
  ptx::wait_copies<1>();
  simt::sync_threads();
  start_copy(1, 1);
  float mean[2] = {}, log2_sum[2];
  mean_of_rows<width>(mean, d_out, plan.tile[2], warp_row);

  const int first_row = (b * H + h) * T;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int t = rows.t[half];
    log2_sum[half] = t < T ? simt::load(a.lse + first_row + t) * kLog2e : 0.f;
    if (t < T && simt::lane() % 4 == 0) {
      simt::store(workspace.statistics + first_row + t, {{log2_sum[half], mean[half]}});
    }
  }
  if (positions && h == 0 && threadIdx.x == 0) {
    simt::store(workspace.first_keys + b * int(gridDim.z) + query_tile, first_keys.low);
  }

  Sums<width> dq = {};
  Ring ring;
  for (int n = 0; n < steps; ++n) {
    const bf16* keys_here = plan.tile[ring.next(n, start_copy)];
    const int first = (first_step + n) * kStep;
    if (first >= warp_t + kWarpRows) continue;  // after all the warp's queries
    Sums<kStep> scores = {}, d_scores = {};
#pragma unroll
    for (int k = 0; k < width / 16; ++k) multiply_rows<width, kStep>(scores, query[k], keys_here, k);
#pragma unroll
    for (int k = 0; k < width / 16; ++k) {
      multiply_rows<width, kStep>(d_scores, d_out[k], keys_here + kStep * width, k);
    }
    if (first + kStep > warp_t || first < first_keys.high) mask_scores<kStep>(scores, rows, first);
#pragma unroll
    for (int block = 0; block < kStep / 8; ++block) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float p = ptx::exp2_approx(fmaf(scores[block][i], factor, -log2_sum[i / 2]));
        d_scores[block][i] = p * (d_scores[block][i] - mean[i / 2]);
      }
    }
    multiply_add<width, kStep>(dq, d_scores, keys_here);
  }
  store_rows<width>(static_cast<bf16*>(a.d_qkv) + ((b * s.T + warp_t) * heads + h) * s.K, heads * s.K,
                    T - warp_t, int(s.K), dq, {s.scale, s.scale});
}

template <int width>
void launch_dq(const AttentionBackward& a, Stream stream) {
  const AttentionShape& s = a.shape;
  simt::launch(attention_dq_kernel<width>,
               {.grid = {s.H, s.B, query_tiles(s)},
                .block = kThreads,
                .shared_bytes = sizeof(Plan<width>),
                .stream = stream,
                .name = "attention_dq"},
               a, AttentionWorkspace(s, a.workspace), s.scale * kLog2e);
}

}  // namespace

void attention_dq(const AttentionBackward& a, Stream stream) {
  a.shape.K <= 64 ? launch_dq<64>(a, stream) : launch_dq<128>(a, stream);
}

}  // namespace genesis::cuda
