#include <algorithm>
#include <cmath>

#include "kernels/attention/attention_tile_cuda.h"

// Flash attention's forward pass in bf16. A block owns 64 queries of one head, 16 a warp, and walks the keys
// that they see in tiles of 64; the queries stay in registers as fragments, and so do the softmax's
// statistics and the output. Keys and values arrive through a ring of three tiles: while one is multiplied
// the next two are under way.
//
// A step over 64 keys at head size 128, per warp: 128 mma (64 for the scores, 64 for the output), 64
// ldmatrix.x4 and 34 exponentials a lane: the tensor cores are what is short, and one block's softmax hides
// behind the other's products.
//
// On the diagonal three of a block's four warps multiply keys that none of their queries sees. To leave them
// out would save no time: the fourth warp needs them all, on a tensor core of its own, and the others wait.
//
// FLOPs: 4 K a pair of query and key, in whole tiles: T^2/2 + 32 T pairs a head, 1.03 times the causal ones
// at T = 2,048. Bytes: queries, output and lse once; 64 keys and values for every tile of queries, mostly
// from L2.
namespace genesis::cuda {
namespace {

template <int width>
struct Plan {
  bf16 tile[3][kTile * width];
};

// The softmax so far of a lane's two rows: the largest score, and this lane's part of the sum of 2^(factor *
// (score - max)).
struct Softmax {
  // Finite, so that a row that sees nothing of its first tiles makes no inf - inf.
  float max[2] = {-1e30f, -1e30f};
  float sum[2] = {0.f, 0.f};
};

// Scores become their probabilities times exp(lse); what was summed before is brought to the new maximum.
template <int width>
__device__ inline void softmax_step(Softmax& softmax, Sums<kTile>& scores, Sums<width>& out, float factor) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float max = softmax.max[half];
#pragma unroll
    for (int block = 0; block < kTile / 8; ++block) {
      max = fmaxf(max, fmaxf(scores[block][2 * half], scores[block][2 * half + 1]));
    }
    max = simt::warp_max<4>(max);
    const float shrink = ptx::exp2_approx((softmax.max[half] - max) * factor);
    softmax.max[half] = max;
    float sum = softmax.sum[half] * shrink;
    const float offset = max * factor;
#pragma unroll
    for (int block = 0; block < kTile / 8; ++block) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[block][i] = ptx::exp2_approx(fmaf(scores[block][i], factor, -offset));
        sum += scores[block][i];
      }
    }
    softmax.sum[half] = sum;
#pragma unroll
    for (int block = 0; block < width / 8; ++block) {
      out[block][2 * half] *= shrink;
      out[block][2 * half + 1] *= shrink;
    }
  }
}

template <int width>
__global__ void __launch_bounds__(kThreads, blocks_on_multiprocessor(width))
    attention_forward_kernel(AttentionForward a, float factor) {
  auto& plan = simt::shared<Plan<width>>();
  const AttentionShape& s = a.shape;
  const int H = int(s.H), KV = int(s.KV), heads = H + 2 * KV;
  const int h = int(blockIdx.x), b = int(blockIdx.y), kv = h / (H / KV);
  // The last queries, which see the most, first: the short blocks fill the end of the launch.
  const int query_tile = int(gridDim.z - 1 - blockIdx.z), t0 = query_tile * kTile, T = int(s.T);
  const HeadRows queries = head_rows(s, a.qkv, b, heads, h), keys = head_rows(s, a.qkv, b, heads, H + kv),
                 values = head_rows(s, a.qkv, b, heads, H + KV + kv);
  const int32_t* positions = a.positions ? a.positions + b * s.T : nullptr;
  const FirstKeys first_keys = first_keys_of_tile(positions, t0, T);
  const int first_tile = first_keys.low / kTile;

  // What passes through the ring: tiles of keys and values in turn, and before them, in the last place, the
  // queries.
  const int copies = 2 * (query_tile + 1 - first_tile);
  const auto start_copy = [&](int n, int slot) {
    if (n < copies)
      copy_tile<kTile, width>(plan.tile[slot], n % 2 ? values : keys, (first_tile + n / 2) * kTile);
    ptx::commit_copies();
  };
  copy_tile<kTile, width>(plan.tile[2], queries, t0);
  ptx::commit_copies();
  start_copy(0, 0);
  start_copy(1, 1);

  const int warp_row = simt::warp() * kWarpRows, warp_t = t0 + warp_row;
  const QueryRows rows(positions, warp_t, T);
  ptx::wait_copies<2>();
  simt::sync_threads();
  uint32_t query[width / 16][4];
#pragma unroll
  for (int k = 0; k < width / 16; ++k) load_a<width>(query[k], plan.tile[2], warp_row, k);

  Sums<width> out = {};
  Softmax softmax;
  Ring ring;
  for (int n = 0; n < copies; n += 2) {
    const int first = first_tile * kTile + n / 2 * kTile;
    Sums<kTile> scores = {};
    const bf16* keys_here = plan.tile[ring.next(n, start_copy)];
#pragma unroll
    for (int k = 0; k < width / 16; ++k) multiply_rows<width, kTile>(scores, query[k], keys_here, k);
    if (first == t0 || first < first_keys.high) mask_scores<kTile>(scores, rows, first);
    softmax_step<width>(softmax, scores, out, factor);
    multiply_add<width, kTile>(out, scores, plan.tile[ring.next(n + 1, start_copy)]);
  }

  float normalise[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = simt::warp_sum<4>(softmax.sum[half]);
    normalise[half] = 1.f / sum;
    if (simt::lane() % 4 == 0 && rows.t[half] < T) {
      simt::store(a.lse + (b * s.H + h) * s.T + rows.t[half], softmax.max[half] * s.scale + logf(sum));
    }
  }
  store_rows<width>(static_cast<bf16*>(a.out) + ((b * s.T + warp_t) * s.H + h) * s.K, s.H * s.K, T - warp_t,
                    int(s.K), out, normalise);
}

template <int width>
void launch_forward(const AttentionForward& a, Stream stream) {
  const AttentionShape& s = a.shape;
  simt::launch(attention_forward_kernel<width>,
               {.grid = {s.H, s.B, block_count(s.T, kTile)},
                .block = kThreads,
                .shared_bytes = sizeof(Plan<width>),
                .stream = stream,
                .name = "attention_forward"},
               a, s.scale * kLog2e);
}

}  // namespace

void attention_forward(const AttentionForward& a, Stream stream) {
  check_attention_shape(a.shape);
  if (!for_tensor_cores(a.shape)) return attention_forward_plain(a, stream);
  a.shape.K <= 64 ? launch_forward<64>(a, stream) : launch_forward<128>(a, stream);
}

size_t attention_forward_workspace(const AttentionShape&) { return 0; }

}  // namespace genesis::cuda
