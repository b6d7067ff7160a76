// Flash attention in tiles of kTile queries by kTile keys. Scores are computed transposed, [key, query], so
// that a query's maximum, sum and factors are lanes of vectors and nothing is ever reduced across a vector.
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_tile_cpu.h"
#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/vector_math.h"

namespace genesis::cpu {

namespace {

// Queries that one task takes, in the forward pass, of all heads of a group.
constexpr int64_t kQueryBlock = 512;

// Scratch of one thread, handed out in order, 64-byte aligned. Over a null pointer it only adds up sizes.
class Scratch {
 public:
  explicit Scratch(void* base) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* take(int64_t n) {
    char* at = base_ ? base_ + bytes_ : nullptr;
    bytes_ += (size_t(n) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  size_t bytes() const { return bytes_; }

 private:
  char* base_;
  size_t bytes_ = 0;
};

// The calling thread's share of a workspace.
template <class S>
S thread_scratch(const AttentionShape& shape, void* workspace) {
  return S(shape, static_cast<char*>(workspace) + size_t(thread_index()) * S(shape, nullptr).bytes);
}

template <class S>
size_t workspace_of(const AttentionShape& shape) {
  return size_t(thread_count()) * S(shape, nullptr).bytes;
}

// One tile of queries of one head, against the keys of one group.
struct QueryTile {
  int64_t t0, rows;      // queries t0 .. t0 + rows - 1
  int64_t padded_rows;   // to whole blocks of a product
  int64_t columns;       // rows in whole vectors
  int64_t key_begin;     // the first tile of keys that a query sees, from 0
  int32_t first[kTile];  // each query's first key
  int32_t first_max;

  QueryTile(int64_t T, const int32_t* positions, int64_t tile)
      : t0(tile * kTile), rows(std::min(kTile, T - t0)) {
    padded_rows = block_count(rows, kRows) * kRows;
    columns = padded(rows);
    for (int64_t i = 0; i < kTile; ++i) {
      first[i] = positions && i < rows ? int32_t(t0 + i) - positions[t0 + i] : positions ? int32_t(t0) : 0;
    }
    key_begin = *std::min_element(first, first + rows) / kTile;
    first_max = *std::max_element(first, first + rows);
  }

  bool diagonal(int64_t key_tile) const { return key_tile * kTile == t0; }
  bool masked(int64_t key_tile) const { return diagonal(key_tile) || key_tile * kTile < first_max; }

  // Sets the scores [key, query] where the query does not see the key to -infinity: exp makes them 0.
  void mask(int64_t key_tile, float* scores) const {
    constexpr float kUnseen = -std::numeric_limits<float>::infinity();
    for (int64_t s = 0; s < kTile; ++s) {
      const int32_t key = int32_t(key_tile * kTile + s);
#pragma omp simd
      for (int64_t t = 0; t < kTile; ++t) {
        const bool seen = first[t] <= key && key <= int32_t(t0 + t);
        scores[s * kTile + t] = seen ? scores[s * kTile + t] : kUnseen;
      }
    }
  }
};

// C[key, query] = sum over the head of A[key] . B[query]. On the diagonal, what is left out is read by no
// product that follows.
template <class W>
void multiply_heads(const QueryTile& q, int64_t K, bool diagonal, const typename W::Word* a,
                    const typename W::Word* b, float* c) {
  const Broadcast<typename W::Word> keys = {a, K / W::kTerms, 1};
  const Columns<typename W::Word> queries = {b, kTile};
  if (diagonal) {
    multiply<W, Start::zero, Skip::columns_before_row>(q.padded_rows, q.columns, K, keys, queries, c, kTile);
  } else {
    multiply<W, Start::zero, Skip::none>(kTile, q.columns, K, keys, queries, c, kTile);
  }
}

template <class W>
struct ForwardScratch {
  using Word = typename W::Word;
  Word *keys, *values, *query, *p;
  float *scores, *out, *max, *sum, *factor;
  size_t bytes;

  ForwardScratch(const AttentionShape& s, void* base) {
    Scratch m(base);
    const int64_t T = block_count(s.T, kTile) * kTile;
    keys = m.take<Word>(T * s.K / W::kTerms);            // rows
    values = m.take<Word>(T / W::kTerms * padded(s.K));  // pairs
    query = m.take<Word>(s.K / W::kTerms * kTile);       // transposed
    p = m.take<Word>(kTile / W::kTerms * kTile);         // pairs of keys, [key, query]
    scores = m.take<float>(kTile * kTile);               // [key, query]
    out = m.take<float>(kTile * padded(s.K));
    for (float** x : {&max, &sum, &factor}) *x = m.take<float>(kTile);
    bytes = m.bytes();
  }
};

// The softmax of a tile of scores so far: max and sum are brought up to date, factor is what the old sums
// have to be multiplied by, scores become exp(scale * score - max), and p the same in words.
template <class W>
void softmax_tile(const ForwardScratch<W>& m, int64_t keys, int64_t columns, float scale) {
  float *scores = m.scores, tile_max[kTile];
  for (int64_t t = 0; t < columns; t += kLanes) {
    Vector max = vector_at(scores + t);
    for (int64_t s = 1; s < keys; ++s) {
      const Vector x = vector_at(scores + s * kTile + t);
      max = x > max ? x : max;
    }
    std::memcpy(tile_max + t, &max, sizeof max);
  }
#pragma omp simd
  for (int64_t t = 0; t < columns; ++t) {
    const float max = std::max(m.max[t], tile_max[t] * scale);
    m.factor[t] = fast_exp(m.max[t] - max);
    m.max[t] = max;
    m.sum[t] *= m.factor[t];
  }
  for (int64_t s = 0; s < keys; ++s) {
#pragma omp simd
    for (int64_t t = 0; t < columns; ++t) {
      const float p = fast_exp(scores[s * kTile + t] * scale - m.max[t]);
      scores[s * kTile + t] = p;
      m.sum[t] += p;
    }
  }
  for (int64_t s = 0; s < keys; s += W::kTerms)
    W::store_pairs(scores + s * kTile, m.p + s / W::kTerms * kTile);
}

template <class T>
struct Rows {  // of one head, in storage
  T* at;
  int64_t stride;
  T* operator[](int64_t t) const { return at + t * stride; }
};

template <class W, class T>
void forward_tile(const ForwardScratch<W>& m, const AttentionShape& s, const QueryTile& q,
                  Rows<const T> query, Rows<T> out, float* lse) {
  const int64_t width = padded(s.K);
  pack_transposed<W>(query[q.t0], query.stride, q.rows, s.K, m.query);
  std::fill_n(m.out, kTile * width, 0.f);
  std::fill_n(m.max, kTile, std::numeric_limits<float>::lowest());
  std::fill_n(m.sum, kTile, 0.f);
  for (int64_t key = q.key_begin; key * kTile <= q.t0; ++key) {
    const bool diagonal = q.diagonal(key);
    multiply_heads<W>(q, s.K, diagonal, m.keys + key * kTile * s.K / W::kTerms, m.query, m.scores);
    if (q.masked(key)) q.mask(key, m.scores);
    const int64_t keys = diagonal ? q.padded_rows : kTile;
    softmax_tile(m, keys, q.columns, s.scale);
    const Broadcast<typename W::Word> p = {m.p, 1, kTile};
    const Columns<typename W::Word> values = {m.values + key * kTile / W::kTerms * width, width};
    if (diagonal) {
      multiply<W, Start::scale, Skip::terms_after_row>(q.padded_rows, width, keys, p, values, m.out, width,
                                                       m.factor);
    } else {
      multiply<W, Start::scale, Skip::none>(q.padded_rows, width, keys, p, values, m.out, width, m.factor);
    }
  }
  for (int64_t t = 0; t < q.rows; ++t) {
    const float reciprocal = 1.f / m.sum[t];
    T* row = out[q.t0 + t];
    for (int64_t i = 0; i < s.K; ++i) row[i] = T(m.out[t * width + i] * reciprocal);
    lse[q.t0 + t] = m.max[t] + std::log(m.sum[t]);
  }
}

template <class T>
void forward(const AttentionForward& a) {
  using W = WordsOf<T>;
  const AttentionShape& s = a.shape;
  const int64_t heads = s.H + 2 * s.KV, group = s.H / s.KV, blocks = block_count(s.T, kQueryBlock);
  parallel_for(s.B * s.KV * blocks, [&](int64_t task) {
    const int64_t block = task % blocks, kv = task / blocks % s.KV, b = task / blocks / s.KV;
    const auto m = thread_scratch<ForwardScratch<W>>(s, a.workspace);
    const int32_t* positions = a.positions ? a.positions + b * s.T : nullptr;
    const auto head = [&](int64_t h) {
      return Rows<const T>{static_cast<const T*>(a.qkv) + (b * s.T * heads + h) * s.K, heads * s.K};
    };
    const int64_t tile_begin = block * kQueryBlock / kTile;
    const int64_t tile_end = std::min(block_count(s.T, kTile), tile_begin + kQueryBlock / kTile);
    const int64_t key_begin = QueryTile(s.T, positions, tile_begin).key_begin;
    for (int64_t tile = key_begin; tile < tile_end; ++tile) {
      const int64_t t = tile * kTile, rows = std::min(kTile, s.T - t);
      pack_rows<W>(head(s.H + kv)[t], heads * s.K, rows, s.K, m.keys + t * s.K / W::kTerms);
      pack_pairs<W>(head(s.H + s.KV + kv)[t], heads * s.K, rows, s.K, m.values + t / W::kTerms * padded(s.K));
    }
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      const Rows<T> out = {static_cast<T*>(a.out) + (b * s.T * s.H + h) * s.K, s.H * s.K};
      for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
        forward_tile(m, s, QueryTile(s.T, positions, tile), head(h), out, a.lse + (b * s.H + h) * s.T);
      }
    }
  });
}

template <class W>
struct BackwardScratch {
  using Word = typename W::Word;
  Word *keys, *values, *key_pairs;
  float *dk, *dv;
  Word *query, *d_out, *query_pairs, *d_out_pairs;
  Word *p, *ds, *ds_pairs;
  float *scores, *dp, *dq, *lse, *mean;
  size_t bytes;

  BackwardScratch(const AttentionShape& s, void* base) {
    Scratch m(base);
    const int64_t T = block_count(s.T, kTile) * kTile, width = padded(s.K);
    for (Word** x : {&keys, &values}) *x = m.take<Word>(T * s.K / W::kTerms);  // rows
    key_pairs = m.take<Word>(T / W::kTerms * width);
    for (float** x : {&dk, &dv}) *x = m.take<float>(T * width);
    for (Word** x : {&query, &d_out}) *x = m.take<Word>(s.K / W::kTerms * kTile);  // transposed
    for (Word** x : {&query_pairs, &d_out_pairs}) *x = m.take<Word>(kTile / W::kTerms * width);
    for (Word** x : {&p, &ds, &ds_pairs})
      *x = m.take<Word>(kTile / W::kTerms * kTile);  // [key, query]: rows; pairs
    for (float** x : {&scores, &dp}) *x = m.take<float>(kTile * kTile);
    dq = m.take<float>(kTile * width);
    for (float** x : {&lse, &mean}) *x = m.take<float>(kTile);
    bytes = m.bytes();
  }
};

// scores become P = exp(scale * score - lse), dp becomes dS = scale * P * (dp - mean), and both become words.
template <class W>
void softmax_backward_tile(const BackwardScratch<W>& m, int64_t keys, int64_t columns, float scale) {
  for (int64_t s = 0; s < keys; ++s) {
    float *scores = m.scores + s * kTile, *dp = m.dp + s * kTile;
#pragma omp simd
    for (int64_t t = 0; t < columns; ++t) {
      const float p = fast_exp(scores[t] * scale - m.lse[t]);
      scores[t] = p;
      dp[t] = scale * p * (dp[t] - m.mean[t]);
    }
    W::store_row(scores, m.p + s * kTile / W::kTerms);
    W::store_row(dp, m.ds + s * kTile / W::kTerms);
  }
  for (int64_t s = 0; s < keys; s += W::kTerms)
    W::store_pairs(m.dp + s * kTile, m.ds_pairs + s / W::kTerms * kTile);
}

template <class W, Skip skip_queries, Skip skip_keys>
void multiply_gradients(const BackwardScratch<W>& m, const AttentionShape& s, const QueryTile& q, int64_t key,
                        int64_t keys) {
  const int64_t width = padded(s.K), t = key * kTile;
  const auto by_key = [&](const typename W::Word* x) {
    return Broadcast<typename W::Word>{x, kTile / W::kTerms, 1};
  };
  multiply<W, Start::add, skip_queries>(keys, width, q.padded_rows, by_key(m.p), {m.d_out_pairs, width},
                                        m.dv + t * width, width);
  multiply<W, Start::add, skip_queries>(keys, width, q.padded_rows, by_key(m.ds), {m.query_pairs, width},
                                        m.dk + t * width, width);
  multiply<W, Start::add, skip_keys>(q.padded_rows, width, keys, {m.ds_pairs, 1, kTile},
                                     {m.key_pairs + t / W::kTerms * width, width}, m.dq, width);
}

template <class W, class T>
void backward_tile(const BackwardScratch<W>& m, const AttentionShape& s, const QueryTile& q,
                   Rows<const T> query, Rows<const T> out, Rows<const T> d_out, const float* lse,
                   Rows<T> d_query) {
  const int64_t width = padded(s.K);
  pack_transposed<W>(query[q.t0], query.stride, q.rows, s.K, m.query);
  pack_transposed<W>(d_out[q.t0], d_out.stride, q.rows, s.K, m.d_out);
  pack_pairs<W>(query[q.t0], query.stride, q.rows, s.K, m.query_pairs);
  pack_pairs<W>(d_out[q.t0], d_out.stride, q.rows, s.K, m.d_out_pairs);
  std::fill_n(m.dq, kTile * width, 0.f);
  for (int64_t t = 0; t < kTile; ++t) {
    float sum = 0;
    if (t < q.rows) {
      const T *x = out[q.t0 + t], *dx = d_out[q.t0 + t];
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < s.K; ++i) sum += float(x[i]) * float(dx[i]);
    }
    m.mean[t] = sum;
    m.lse[t] = t < q.rows ? lse[q.t0 + t] : 0.f;
  }
  for (int64_t key = q.key_begin; key * kTile <= q.t0; ++key) {
    const bool diagonal = q.diagonal(key);
    const int64_t keys = diagonal ? q.padded_rows : kTile, at = key * kTile * s.K / W::kTerms;
    multiply_heads<W>(q, s.K, diagonal, m.keys + at, m.query, m.scores);
    multiply_heads<W>(q, s.K, diagonal, m.values + at, m.d_out, m.dp);
    if (q.masked(key)) q.mask(key, m.scores);
    softmax_backward_tile(m, keys, q.columns, s.scale);
    if (diagonal) {
      multiply_gradients<W, Skip::terms_before_row, Skip::terms_after_row>(m, s, q, key, keys);
    } else {
      multiply_gradients<W, Skip::none, Skip::none>(m, s, q, key, keys);
    }
  }
  for (int64_t t = 0; t < q.rows; ++t) {
    T* row = d_query[q.t0 + t];
    for (int64_t i = 0; i < s.K; ++i) row[i] = T(m.dq[t * width + i]);
  }
}

template <class T>
void backward(const AttentionBackward& a) {
  using W = WordsOf<T>;
  const AttentionShape& s = a.shape;
  const int64_t heads = s.H + 2 * s.KV, group = s.H / s.KV, tiles = block_count(s.T, kTile),
                width = padded(s.K);
  parallel_for(s.B * s.KV, [&](int64_t task) {
    const int64_t kv = task % s.KV, b = task / s.KV;
    const auto m = thread_scratch<BackwardScratch<W>>(s, a.workspace);
    const int32_t* positions = a.positions ? a.positions + b * s.T : nullptr;
    const auto rows_of = [&](auto* x, int64_t heads, int64_t h) {
      return Rows<std::remove_pointer_t<decltype(x)>>{x + (b * s.T * heads + h) * s.K, heads * s.K};
    };
    const auto head = [&](int64_t h) { return rows_of(static_cast<const T*>(a.qkv), heads, h); };
    const auto d_head = [&](int64_t h) { return rows_of(static_cast<T*>(a.d_qkv), heads, h); };
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t t = tile * kTile, rows = std::min(kTile, s.T - t);
      pack_rows<W>(head(s.H + kv)[t], heads * s.K, rows, s.K, m.keys + t * s.K / W::kTerms);
      pack_rows<W>(head(s.H + s.KV + kv)[t], heads * s.K, rows, s.K, m.values + t * s.K / W::kTerms);
      pack_pairs<W>(head(s.H + kv)[t], heads * s.K, rows, s.K, m.key_pairs + t / W::kTerms * width);
    }
    std::fill_n(m.dk, tiles * kTile * width, 0.f);
    std::fill_n(m.dv, tiles * kTile * width, 0.f);
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        backward_tile(
            m, s, QueryTile(s.T, positions, tile), head(h), rows_of(static_cast<const T*>(a.out), s.H, h),
            rows_of(static_cast<const T*>(a.d_out), s.H, h), a.lse + (b * s.H + h) * s.T, d_head(h));
      }
    }
    for (int64_t t = 0; t < s.T; ++t) {
      T *dk = d_head(s.H + kv)[t], *dv = d_head(s.H + s.KV + kv)[t];
      for (int64_t i = 0; i < s.K; ++i) dk[i] = T(m.dk[t * width + i]);
      for (int64_t i = 0; i < s.K; ++i) dv[i] = T(m.dv[t * width + i]);
    }
  });
}

}  // namespace

void attention_forward(const AttentionForward& a) {
  with_float_type(a.shape.dtype, [&](auto t) { forward<decltype(t)>(a); });
}

void attention_backward(const AttentionBackward& a) {
  with_float_type(a.shape.dtype, [&](auto t) { backward<decltype(t)>(a); });
}

size_t attention_forward_workspace(const AttentionShape& s) {
  size_t bytes = 0;
  with_float_type(s.dtype, [&](auto t) { bytes = workspace_of<ForwardScratch<WordsOf<decltype(t)>>>(s); });
  return bytes;
}

size_t attention_backward_workspace(const AttentionShape& s) {
  size_t bytes = 0;
  with_float_type(s.dtype, [&](auto t) { bytes = workspace_of<BackwardScratch<WordsOf<decltype(t)>>>(s); });
  return bytes;
}

}  // namespace genesis::cpu
