// Attention in fp32, and for heads too wide for the registers of the kernels with tensor cores: correct,
// short and slow. A warp owns a row; its lanes take 32 rows of the other side at a time, one each, for the
// scores, and eight columns each for the sums over them.
#include <algorithm>

#include "kernels/attention/attention_plain_cuda.h"
#include "kernels/common/dispatch.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 4;
// Of a multiprocessor, at least: leaves ptxas 128 registers, of which it takes up to 104. Told nothing it
// stops at 64 on some architectures and spills, as it does at 80.
[[maybe_unused]] constexpr int kBlocks = 4;

// The row of a warp: a launch has a block for every few rows of a head, one row of blocks a head, and one
// layer of those a sequence.
struct Place {
  int b = int(blockIdx.z), head = int(blockIdx.y), t = int(blockIdx.x) * kWarps + simt::warp();
};

// Row t of head `head` of an array [B, T, heads, K].
template <class T, class Void>
__device__ inline auto row_of(const AttentionShape& s, Void* x, int64_t heads, int b, int64_t head,
                              int64_t t) {
  using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;
  return static_cast<Element*>(x) + ((b * s.T + t) * heads + head) * s.K;
}

template <class T>
__global__ void __launch_bounds__(kWarps* kLanes, kBlocks)
    attention_forward_plain_kernel(AttentionForward a) {
  const AttentionShape& s = a.shape;
  const Place p;
  if (p.t >= s.T) return;
  const int64_t heads = s.H + 2 * s.KV, kv = p.head / (int(s.H) / int(s.KV));
  const int K = int(s.K), first = first_key(a.positions ? a.positions + p.b * s.T : nullptr, p.t);
  const T* q = row_of<T>(s, a.qkv, heads, p.b, p.head, p.t);
  const T* keys = row_of<T>(s, a.qkv, heads, p.b, s.H + kv, 0);
  const T* values = keys + s.KV * s.K;

  RowSoftmax row(K);
  for (int begin = first; begin <= p.t; begin += kLanes) {
    row.add(q, keys, values, heads * s.K, begin, std::min(begin + kLanes, p.t + 1), s.scale);
  }
  row.out.scale(1.f / row.sum);
  row.out.store(row_of<T>(s, a.out, s.H, p.b, p.head, p.t));
  if (simt::lane() == 0) simt::store(a.lse + (p.b * s.H + p.head) * s.T + p.t, row.max + logf(row.sum));
}

// Of one query and one key: the softmax's weight and d_score = scale * weight * (d_out . value - mean).
struct Gradient {
  float weight = 0.f, d_score = 0.f;
};

template <class T>
__device__ inline Gradient gradient(const AttentionShape& s, const T* q, const T* d_out, const T* k,
                                    const T* v, float lse, float mean) {
  const float weight = expf(s.scale * dot(q, k, int(s.K)) - lse);
  return {weight, s.scale * weight * (dot(d_out, v, int(s.K)) - mean)};
}

// A warp a query. Leaves the mean sum_i out_i d_out_i of every query in the workspace, [B, H, T].
template <class T>
__global__ void __launch_bounds__(kWarps* kLanes, kBlocks) attention_dq_plain_kernel(AttentionBackward a) {
  const AttentionShape& s = a.shape;
  const Place p;
  if (p.t >= s.T) return;
  const int64_t heads = s.H + 2 * s.KV, kv = p.head / (int(s.H) / int(s.KV));
  const int K = int(s.K), first = first_key(a.positions ? a.positions + p.b * s.T : nullptr, p.t);
  const T* q = row_of<T>(s, a.qkv, heads, p.b, p.head, p.t);
  const T* keys = row_of<T>(s, a.qkv, heads, p.b, s.H + kv, 0);
  const T* values = keys + s.KV * s.K;
  const T* d_out = row_of<T>(s, a.d_out, s.H, p.b, p.head, p.t);
  const int64_t row = (p.b * s.H + p.head) * s.T + p.t;
  const float lse = simt::load(a.lse + row);
  const float mean = dot(d_out, row_of<T>(s, a.out, s.H, p.b, p.head, p.t), K);
  if (simt::lane() == 0) simt::store(static_cast<float*>(a.workspace) + row, mean);

  Columns dq(K);
  for (int begin = first; begin <= p.t; begin += kLanes) {
    const int key = begin + simt::lane();
    const int64_t at = key * heads * s.K;
    Gradient g;
    if (key <= p.t) g = gradient(s, q, d_out, keys + at, values + at, lse, mean);
    const int end = std::min(begin + kLanes, p.t + 1);
    for (int i = begin; i < end; ++i) dq.add(simt::shuffle(g.d_score, i - begin), keys + i * heads * s.K);
  }
  dq.store(row_of<T>(s, a.d_qkv, heads, p.b, p.head, p.t));
}

// A warp a key, over the queries of its group of heads.
template <class T>
__global__ void __launch_bounds__(kWarps* kLanes, kBlocks) attention_dkv_plain_kernel(AttentionBackward a) {
  const AttentionShape& s = a.shape;
  const Place p;
  if (p.t >= s.T) return;
  const int64_t heads = s.H + 2 * s.KV;
  const int group = int(s.H) / int(s.KV);
  const int K = int(s.K), rows = int(s.T);
  const int32_t* positions = a.positions ? a.positions + p.b * s.T : nullptr;
  const T* k = row_of<T>(s, a.qkv, heads, p.b, s.H + p.head, p.t);
  const T* v = k + s.KV * s.K;

  Columns dk(K), dv(K);
  for (int head = p.head * group; head < (p.head + 1) * group; ++head) {
    const T* queries = row_of<T>(s, a.qkv, heads, p.b, head, 0);
    const T* d_outs = row_of<T>(s, a.d_out, s.H, p.b, head, 0);
    const int64_t row = (p.b * s.H + head) * s.T;
    for (int begin = p.t; begin < rows; begin += kLanes) {
      const int t = begin + simt::lane();
      const bool sees = t < rows && first_key(positions, t) <= p.t;
      if (!simt::any(sees)) continue;
      Gradient g;
      if (sees) {
        g = gradient(s, queries + t * heads * s.K, d_outs + t * s.H * s.K, k, v, simt::load(a.lse + row + t),
                     simt::load(static_cast<const float*>(a.workspace) + row + t));
      }
      const int end = std::min(begin + kLanes, rows);
      for (int i = begin; i < end; ++i) {
        dv.add(simt::shuffle(g.weight, i - begin), d_outs + i * s.H * s.K);
        dk.add(simt::shuffle(g.d_score, i - begin), queries + i * heads * s.K);
      }
    }
  }
  dk.store(row_of<T>(s, a.d_qkv, heads, p.b, s.H + p.head, p.t));
  dv.store(row_of<T>(s, a.d_qkv, heads, p.b, s.H + s.KV + p.head, p.t));
}

simt::Launch a_warp_a_row(const AttentionShape& s, int64_t heads, Stream stream, const char* name) {
  return {.grid = {block_count(s.T, kWarps), heads, s.B},
          .block = kWarps * kLanes,
          .stream = stream,
          .name = name};
}

}  // namespace

void attention_forward_plain(const AttentionForward& a, Stream stream) {
  with_float_type(a.shape.dtype, [&](auto t) {
    simt::launch(attention_forward_plain_kernel<decltype(t)>,
                 a_warp_a_row(a.shape, a.shape.H, stream, "attention_forward_plain"), a);
  });
}

void attention_backward_plain(const AttentionBackward& a, Stream stream) {
  with_float_type(a.shape.dtype, [&](auto t) {
    simt::launch(attention_dq_plain_kernel<decltype(t)>,
                 a_warp_a_row(a.shape, a.shape.H, stream, "attention_dq_plain"), a);
    simt::launch(attention_dkv_plain_kernel<decltype(t)>,
                 a_warp_a_row(a.shape, a.shape.KV, stream, "attention_dkv_plain"), a);
  });
}

}  // namespace genesis::cuda
