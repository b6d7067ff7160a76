// The gradients of keys and values. A block owns 64 keys of one head, 16 a warp, and walks the queries that
// see them, 32 at a time, for all the query heads of the group: their sums stay in its registers, so that
// nothing is added up in memory and every order of blocks gives the same bits. Scores are made transposed,
// [key, query]: their fragments are then the left factors of both sums without a way through shared memory.
// The values stay in registers as fragments, the keys in shared memory.
//
// A step at head size 128, per warp: 128 mma (32 each for scores, values . d_out, dv and dk), 72 ldmatrix.x4
// and some 550 instructions in all; 2 blocks an SM: shared memory is busy 56% of the tensor cores' time.
// FLOPs: 8 K a pair of query and key; with dq's 6 K that is 1.4 times what a backward pass with atomic sums
// of dq takes, which would instead write and read 64 KB of fp32 for every 64 x 64 pairs. Bytes: keys, values,
// dk and dv once; queries, d_out and statistics once a tile of keys, from L2. Expected: 80% of an RTX 4090's
// bf16 rate; genesis_1b's layer at 4 x 2,048 tokens: 106 GFLOP, 0.83 ms.
//
// With B KV T / 64 blocks, few key heads or short sequences leave SMs idle at the end: nano_1b (2 key heads)
// at 4 x 2,048 tokens has 256 blocks, the longest 32 times the shortest, for the 256 places of an RTX 4090.
#include "kernels/attention/attention_backward_cuda.h"

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

// Some queries of a head.
struct Step {
  int head = 0, t0 = 0;
  bool exists = true;
};

// The steps over all queries that see any of a tile of keys: for each head of the group, through the tiles of
// queries that do. All lanes of the warp.
class Steps {
 public:
  __device__ Steps(const int32_t* first_keys, int key_tile, int T, int head, int heads)
      : first_keys_(first_keys),
        key_tile_(key_tile),
        tiles_(int(gridDim.z)),
        T_(T),
        last_head_(head + heads - 1),
        step_{head, 0, true} {
    restart();
  }

  __device__ Step next() {
    if (second_half_ && step_.t0 + kStep < T_) {
      second_half_ = false;
      step_.t0 += kStep;
      return step_;
    }
    while (left_ == 0) {
      window_tile_ += simt::kWarpSize;
      if (window_tile_ < tiles_) {
        left_ = window(window_tile_);
      } else if (step_.head == last_head_) {
        step_.exists = false;
        return step_;
      } else {
        ++step_.head;
        restart();
      }
    }
    step_.t0 = (window_tile_ + ptx::trailing_zeros(left_)) * kTile;
    left_ &= left_ - 1;
    second_half_ = true;
    return step_;
  }

 private:
  // Bit i: tile `from` + i sees some of the keys.
  __device__ uint32_t window(int from) const {
    const int tile = from + simt::lane();
    return simt::ballot(tile < tiles_ &&
                        (!first_keys_ || simt::load(first_keys_ + tile) < (key_tile_ + 1) * kTile));
  }
  __device__ void restart() {
    window_tile_ = key_tile_;
    left_ = window(key_tile_);
  }

  const int32_t* first_keys_;
  int key_tile_, tiles_, T_, last_head_, window_tile_;
  uint32_t left_;
  Step step_;
  bool second_half_ = false;
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

template <int width>
__global__ void __launch_bounds__(kThreads, width == 64 ? 3 : 2)
    attention_dkv_kernel(AttentionBackward a, AttentionWorkspace workspace, float factor) {
  auto& plan = simt::shared<Plan<width>>();
  const AttentionShape& s = a.shape;
  const int H = int(s.H), KV = int(s.KV), heads = H + 2 * KV, group = H / KV;
  const int kv = int(blockIdx.x), b = int(blockIdx.y);
  const int key_tile = int(blockIdx.z), first_key = key_tile * kTile, T = int(s.T);
  const bool documents = a.positions;
  Steps steps(documents ? workspace.first_keys + b * int(gridDim.z) : nullptr, key_tile, T, kv * group,
              group);

  const auto start_copy = [&](const Step& step, int stage) {
    if (step.exists) {
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
  Step step = steps.next();
  start_copy(step, 0);

  const int warp_row = simt::warp() * kWarpRows, warp_key = first_key + warp_row;
  uint32_t value[width / 16][4];
  ptx::wait_copies<1>();
  simt::sync_threads();
#pragma unroll
  for (int k = 0; k < width / 16; ++k) load_a<width>(value[k], plan.stage[1], warp_row, k);

  Sums<width> dk = {}, dv = {};
  for (int stage = 0; step.exists; stage ^= 1) {
    ptx::wait_copies<0>();
    simt::sync_threads();
    const int t0 = step.t0;
    step = steps.next();
    start_copy(step, stage ^ 1);
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

  bf16* rows = static_cast<bf16*>(a.d_qkv) + ((b * s.T + warp_key) * heads + H + kv) * s.K;
  store_rows<width>(rows, heads * s.K, T - warp_key, int(s.K), dk, {s.scale, s.scale});
  store_rows<width>(rows + KV * s.K, heads * s.K, T - warp_key, int(s.K), dv, {1.f, 1.f});
}

template <int width>
void launch_dkv(const AttentionBackward& a, Stream stream) {
  const AttentionShape& s = a.shape;
  simt::launch(attention_dkv_kernel<width>,
               {.grid = {s.KV, s.B, query_tiles(s)},
                .block = kThreads,
                .shared_bytes = sizeof(Plan<width>),
                .stream = stream,
                .name = "attention_dkv"},
               a, AttentionWorkspace(s, a.workspace), s.scale * kLog2e);
}

}  // namespace

void attention_dkv(const AttentionBackward& a, Stream stream) {
  a.shape.K <= 64 ? launch_dkv<64>(a, stream) : launch_dkv<128>(a, stream);
}

}  // namespace genesis::cuda
