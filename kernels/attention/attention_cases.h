// Attention's cases: what tests and benchmarks of every device run it on.
#pragma once

#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_ref.h"
#include "kernels/common/cases.h"
#include "kernels/common/random.h"

namespace genesis {

struct AttentionCase {
  const char* name;
  int64_t B, T, H, KV, K;
  int64_t document = 0;  // mean length of the documents that are packed into a sequence; 0: one a sequence
  double deviation = 1;  // of queries and keys: larger ones make a sharper softmax
};

inline constexpr AttentionCase kAttentionCases[] = {
    {"one token", 2, 1, 2, 1, 8},
    {"two tokens", 1, 2, 1, 1, 16},
    {"quickstart", 1, 192, 4, 2, 64},
    {"a tile less one", 1, 63, 3, 3, 24},
    {"a tile and one", 2, 65, 2, 1, 64},
    {"a group of 6", 1, 130, 6, 1, 128},
    {"smallest head", 1, 100, 4, 2, 8},
    {"odd head", 1, 97, 4, 2, 72},
    {"largest head", 1, 129, 2, 1, 256},
    {"long", 1, 530, 2, 1, 16},
    {"sharp", 1, 200, 2, 2, 64, 0, 4.0},
    {"documents", 2, 200, 4, 2, 32, 40},
    {"documents of a token or two", 1, 150, 2, 1, 32, 2},
    {"documents of some tiles", 1, 640, 2, 1, 32, 200},
    {"sharp documents", 1, 200, 2, 1, 64, 50, 4.0},
};

inline constexpr AttentionCase kAttentionBenchCases[] = {
    {"quickstart", 8, 256, 5, 1, 64},
    {"T 512", 4, 512, 6, 3, 64},
    {"T 1024", 2, 1024, 6, 3, 64},
    {"documents", 4, 512, 6, 3, 64, 100},
    {"one of genesis_1b", 1, 2048, 12, 6, 128},
    // Micro-batches of training.
    {"genesis_1b", 4, 2048, 12, 6, 128},
    {"genesis_1b_run1", 4, 2048, 16, 4, 128},
    {"nano_1b", 4, 2048, 16, 2, 128},
};

// Of generation: the last of T tokens of each of B sequences.
inline constexpr AttentionCase kAttentionCachedBenchCases[] = {
    {"quickstart", 1, 256, 5, 1, 64},           {"genesis_1b", 1, 2048, 12, 6, 128},
    {"nano_1b", 1, 2048, 16, 2, 128},           {"16 of quickstart", 16, 256, 5, 1, 64},
    {"16 of genesis_1b", 16, 2048, 12, 6, 128},
};

// One case's arrays. The forward's outputs are the backward's inputs: run forward() first.
struct AttentionProblem {
  AttentionCase c;
  AttentionShape shape;
  Buffer qkv, positions, out, lse, d_out, d_qkv, forward_workspace, backward_workspace;

  AttentionProblem(const AttentionCase& c, DType dtype, const Memory& memory = kHostMemory)
      : c(c), shape{c.B, c.T, c.H, c.KV, c.K, dtype, float(1 / std::sqrt(double(c.K)))} {
    const int64_t rows = c.B * c.T;
    for (Buffer* b : {&qkv, &d_qkv}) *b = Buffer(dtype, rows * (c.H + 2 * c.KV) * c.K, memory);
    for (Buffer* b : {&out, &d_out}) *b = Buffer(dtype, rows * c.H * c.K, memory);
    lse = Buffer(DType::f32, rows * c.H, memory);
    qkv.fill_normal(1, 0, 0, c.deviation);
    d_out.fill_normal(1, 1);
    if (c.document == 0) return;
    positions = Buffer(DType::i32, rows, memory);
    for (int64_t row = 0; row < rows; ++row) {
      const bool starts = row % c.T == 0 || random_uniform(1, 2, uint64_t(row)) * float(c.document) < 1;
      positions.as<int32_t>()[row] = starts ? 0 : positions.as<int32_t>()[row - 1] + 1;
    }
  }
  void take_workspaces(size_t forward_bytes, size_t backward_bytes, const Memory& memory = kHostMemory) {
    forward_workspace = workspace_buffer(forward_bytes, memory);
    backward_workspace = workspace_buffer(backward_bytes, memory);
  }

  const int32_t* document_positions() const { return positions.as<int32_t>(); }
  AttentionForward forward() const {
    return {shape, qkv.data(), document_positions(), out.data(), lse.as<float>(), forward_workspace.data()};
  }
  AttentionBackward backward() const {
    return {shape,           qkv.data(),   document_positions(), out.data(),
            lse.as<float>(), d_out.data(), d_qkv.data(),         backward_workspace.data()};
  }

  // Of the scores that the mask leaves: two products forward, five backward.
  double forward_flops() const {
    double scores = 0;
    for (int64_t row = 0; row < c.B * c.T; ++row) {
      scores += double(c.H) * double(1 + (positions.data() ? positions.as<int32_t>()[row] : row % c.T));
    }
    return 2 * 2 * scores * double(c.K);
  }
  double backward_flops() const { return 2.5 * forward_flops(); }
};

// A problem's sequences as generation meets them: each has a slot of a cache that its tokens are appended to, some of
// some sequences at a time. One slot more belongs to no sequence.
struct AttentionCache {
  struct Token {
    int64_t b = 0, t = 0;  // of the problem; negative b: none
  };

  AttentionProblem& p;
  int64_t width, row, slots, T_max;
  Buffer slot, positions, qkv, out, k, v;

  AttentionCache(AttentionProblem& p, int64_t most_tokens, const Memory& memory = kHostMemory)
      : p(p),
        width(p.c.KV * p.c.K),
        row((p.c.H + 2 * p.c.KV) * p.c.K),
        slots(p.c.B + 1),
        T_max(p.c.T + 3),
        slot(DType::i32, most_tokens, memory),
        positions(DType::i32, most_tokens, memory),
        qkv(p.shape.dtype, most_tokens * row, memory),
        out(p.shape.dtype, most_tokens * p.c.H * p.c.K, memory),
        k(p.shape.dtype, slots * T_max * width, memory),
        v(p.shape.dtype, slots * T_max * width, memory) {}

  int64_t slot_of(int64_t b) const { return slots - 1 - b; }  // 0 is nobody's

  AttentionCached step(std::span<const Token> tokens) const {
    const size_t bytes = size_t(row) * size_of(p.shape.dtype);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto [b, t] = tokens[i];
      slot.as<int32_t>()[i] = b < 0 ? -1 : int32_t(slot_of(b));
      positions.as<int32_t>()[i] = int32_t(t);
      if (b < 0) continue;
      std::memcpy(qkv.as<char>() + i * bytes, p.qkv.as<char>() + size_t(b * p.c.T + t) * bytes, bytes);
    }
    return {.n = int64_t(tokens.size()),
            .slots = slots,
            .T_max = T_max,
            .H = p.c.H,
            .KV = p.c.KV,
            .K = p.c.K,
            .dtype = p.shape.dtype,
            .scale = p.shape.scale,
            .slot = slot.as<int32_t>(),
            .positions = positions.as<int32_t>(),
            .qkv = qkv.data(),
            .k_cache = k.data(),
            .v_cache = v.data(),
            .out = out.data()};
  }

  // A step's outputs go where the whole problem's are. Whether those of rows that are no tokens are zero.
  bool collect(std::span<const Token> tokens) const {
    const int64_t columns = p.c.H * p.c.K;
    bool zero = true;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto [b, t] = tokens[i];
      for (int64_t c = 0; c < columns; ++c) {
        const double x = out.get(int64_t(i) * columns + c);
        if (b < 0) {
          zero = zero && x == 0;
        } else {
          p.out.set((b * p.c.T + t) * columns + c, x);
        }
      }
    }
    return zero;
  }

  // Steps that hold all tokens: up to `most` at a time, of as many sequences, which advance unequally and leave rows
  // empty.
  std::vector<std::vector<Token>> unequal_steps(size_t most, uint64_t seed) const {
    std::vector<std::vector<Token>> steps;
    std::vector<int64_t> done(size_t(p.c.B), 0);
    uint64_t draws = 0;
    for (int64_t left = p.c.B * p.c.T; left > 0;) {
      std::vector<Token> step;
      for (int64_t b = 0; b < p.c.B; ++b) {
        const size_t room = most - step.size();
        const auto wanted = size_t(random_bits(seed, 0, draws++) % 4);
        const size_t n = std::min({wanted, room, size_t(p.c.T - done[size_t(b)])});
        for (size_t i = 0; i < n; ++i) step.push_back({b, done[size_t(b)]++});
        left -= int64_t(n);
        if (step.size() < most && wanted == 0) step.push_back({-1, 0});
      }
      // A sequence's tokens are in any order.
      for (size_t i = step.size(); i > 1; --i)
        std::swap(step[i - 1], step[random_bits(seed, 1, draws++) % i]);
      if (!step.empty()) steps.push_back(std::move(step));
    }
    return steps;
  }

  // Bytes of a step of each sequence's last token: the cache read once; the tokens' own rows, which go into the
  // cache, and their outputs are as nothing beside it.
  double last_step_bytes() const { return double(2 * p.c.B * p.c.T * width) * size_of(p.shape.dtype); }

  // Whether the keys and values of all tokens are in the cache, and nothing beside them.
  bool holds_all() const {
    for (int64_t s = 0; s < slots; ++s) {
      for (int64_t i = 0; i < T_max * width; ++i) {
        const int64_t t = i / width, b = slots - 1 - s, at = s * T_max * width + i;
        if (s == 0 || t >= p.c.T) {
          if (!std::isnan(k.get(at)) || !std::isnan(v.get(at))) return false;
          continue;
        }
        const int64_t key = (b * p.c.T + t) * row + p.c.H * p.c.K + i % width;
        if (k.get(at) != p.qkv.get(key) || v.get(at) != p.qkv.get(key + width)) return false;
      }
    }
    return true;
  }
};

// Bounds of the sums that attention's rounding errors are measured against, over all heads and rows.
struct AttentionMagnitudes {
  double q = 0, k = 0, v = 0, d_out = 0;  // largest elements
  double score = 0;                       // scale * |q| |k|: of the terms of a score
  double d_p = 0;                         // |d_out| |v|: of the terms of d_out . v
  double mean = 0;                        // sum |out| |d_out|
  double d_score_row = 0;                 // sum over keys of |d_score|, which is dq's factor of k
  double d_score_column = 0;              // sum over queries of |d_score|, dk's factor of q
  double p_column = 0;                    // sum over queries of p, dv's factor of d_out
  double lse = 0;
};

inline double norm(const double* x, int64_t n) { return std::sqrt(ref::dot(x, x, n)); }

inline AttentionMagnitudes attention_magnitudes(const AttentionProblem& p, const std::vector<double>& qkv,
                                                const std::vector<double>& d_out) {
  const AttentionShape& s = p.shape;
  const int64_t stride = (s.H + 2 * s.KV) * s.K;
  AttentionMagnitudes m;
  double q_norm = 0, k_norm = 0, v_norm = 0, d_out_norm = 0;
  for (int64_t i = 0; i < s.B * s.T * (s.H + 2 * s.KV); ++i) {
    const int64_t head = i % (s.H + 2 * s.KV);
    const bool is_q = head < s.H, is_k = !is_q && head < s.H + s.KV;
    double& element = is_q ? m.q : is_k ? m.k : m.v;
    double& row = is_q ? q_norm : is_k ? k_norm : v_norm;
    row = std::max(row, norm(&qkv[size_t(i * s.K)], s.K));
    for (int64_t j = i * s.K; j < (i + 1) * s.K; ++j) element = std::max(element, std::abs(qkv[size_t(j)]));
  }
  for (int64_t i = 0; i < s.B * s.T * s.H; ++i)
    d_out_norm = std::max(d_out_norm, norm(&d_out[size_t(i * s.K)], s.K));
  m.d_out = largest(d_out);
  m.score = s.scale * q_norm * k_norm;
  m.d_p = d_out_norm * v_norm;

  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t kv = 0; kv < s.KV; ++kv) {
      std::vector<double> d_score_column(size_t(s.T), 0.0), p_column(size_t(s.T), 0.0);
      const double* k = &qkv[size_t(b * s.T * stride + (s.H + kv) * s.K)];
      const double* v = k + s.KV * s.K;
      for (int64_t h = kv * s.H / s.KV; h < (kv + 1) * s.H / s.KV; ++h) {
        for (int64_t t = 0; t < s.T; ++t) {
          const double* q = &qkv[size_t((b * s.T + t) * stride + h * s.K)];
          const double* d_o = &d_out[size_t(((b * s.T + t) * s.H + h) * s.K)];
          const int64_t first = p.document_positions() ? t - p.document_positions()[b * s.T + t] : 0;
          const auto row = ref::attention_row(q, k, stride, first, t, s.K, s.scale);
          std::vector<double> d_p(row.p.size());
          for (size_t j = 0; j < d_p.size(); ++j)
            d_p[j] = ref::dot(d_o, v + (first + int64_t(j)) * stride, s.K);
          const double mean = std::inner_product(d_p.begin(), d_p.end(), row.p.begin(), 0.0);
          double d_score_row = 0;
          for (size_t j = 0; j < d_p.size(); ++j) {
            const double d_score = std::abs(s.scale * row.p[j] * (d_p[j] - mean));
            d_score_row += d_score;
            d_score_column[size_t(first) + j] += d_score;
            p_column[size_t(first) + j] += row.p[j];
          }
          m.d_score_row = std::max(m.d_score_row, d_score_row);
          m.lse = std::max(m.lse, std::abs(row.lse));
        }
      }
      m.d_score_column = std::max(m.d_score_column, largest(d_score_column));
      m.p_column = std::max(m.p_column, largest(p_column));
    }
  }
  const auto out = p.out.to_double();
  for (int64_t i = 0; i < s.B * s.T * s.H; ++i) {
    double sum = 0;
    for (int64_t j = i * s.K; j < (i + 1) * s.K; ++j) sum += std::abs(out[size_t(j)] * d_out[size_t(j)]);
    m.mean = std::max(m.mean, sum);
  }
  return m;
}

// The relative error of a softmax's elements in fp32: a score's absolute error (its sum of K terms, the lse
// it is compared with) and the few roundings of exp.
inline double softmax_error(const AttentionShape& s, const AttentionMagnitudes& m) {
  return unit_roundoff(DType::f32) * (2 * double(s.K) * m.score + m.lse + double(s.T) + 8);
}

// A device may round p and d_score to the storage type before it multiplies them: the first term of each sum
// below. The others are fp32's.
inline std::vector<Result> attention_forward_results(const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  const auto qkv = p.qkv.to_double(), d_out = p.d_out.to_double();
  std::vector<double> out(size_t(p.out.size())), lse(size_t(p.lse.size()));
  ref::attention_forward(s, qkv.data(), p.document_positions(), out.data(), lse.data());
  const AttentionMagnitudes m = attention_magnitudes(p, qkv, d_out);
  const double u = unit_roundoff(s.dtype), u32 = unit_roundoff(DType::f32), error = softmax_error(s, m);
  return {{"out", &p.out, std::move(out), {u, m.v * (u + 2 * error + u32 * double(s.T))}},
          {"lse", &p.lse, std::move(lse), {u32, error}}};
}

// d_qkv as three results: queries, keys, values. `parts` keeps what they compare.
struct AttentionGradients {
  Buffer parts[3];
  std::vector<Result> results;
};

// Call after the backward pass.
inline AttentionGradients attention_backward_results(const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  const auto qkv = p.qkv.to_double(), d_out = p.d_out.to_double();
  std::vector<double> expected(qkv.size());
  ref::attention_backward(s, qkv.data(), p.document_positions(), d_out.data(), expected.data());

  const AttentionMagnitudes m = attention_magnitudes(p, qkv, d_out);
  const double u = unit_roundoff(s.dtype), u32 = unit_roundoff(DType::f32), error = softmax_error(s, m);
  // d_score = scale * p * (d_p - mean): the error of the bracket (mean is made from the rounded out), and of
  // the factor and the sum that follows.
  const double bracket = s.scale * (u * m.mean + 2 * u32 * double(s.K) * m.d_p);
  const double group = double(s.H / s.KV), factor = u + 2 * error + u32 * double(s.T) * group;
  const double dq = m.k * (factor * m.d_score_row + bracket);
  const double dk = m.q * (factor * m.d_score_column + bracket * m.p_column);
  const double dv = m.d_out * factor * m.p_column;

  const int64_t heads[] = {0, s.H, s.H + s.KV, s.H + 2 * s.KV};
  const char* names[] = {"dq", "dk", "dv"};
  const double tolerances[] = {dq, dk, dv};
  AttentionGradients g;
  for (int part = 0; part < 3; ++part) {
    const int64_t width = (heads[part + 1] - heads[part]) * s.K;
    g.parts[part] = Buffer(s.dtype, s.B * s.T * width);
    std::vector<double> wanted;
    for (int64_t i = 0; i < s.B * s.T * width; ++i) {
      const int64_t at = i / width * heads[3] * s.K + heads[part] * s.K + i % width;
      g.parts[part].set(i, p.d_qkv.get(at));
      wanted.push_back(expected[size_t(at)]);
    }
    g.results.push_back({names[part], &g.parts[part], std::move(wanted), {u, tolerances[part]}});
  }
  return g;
}

}  // namespace genesis
