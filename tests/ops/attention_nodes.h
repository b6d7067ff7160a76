#pragma once

#include <cstring>

#include "engine/ops/attention.h"
#include "kernels/attention/attention_cases.h"
#include "tests/ops/one_node.h"

namespace genesis {

// The kernels' own tests have the others, which take the host executor seconds.
inline bool is_small(const AttentionCase& c) { return c.B * c.H * c.T * c.T * c.K <= 1500000; }

struct AttentionNode {
  AttentionProblem p;
  AttentionAttrs attrs;
  Shape qkv, out, lse;

  AttentionNode(const AttentionCase& c, DType dtype)
      : p(c, dtype),
        attrs{int(c.B), int(c.T), int(c.H), int(c.KV), int(c.K), c.document > 0},
        qkv{c.B * c.T, (c.H + 2 * c.KV) * c.K},
        out{c.B * c.T, c.H * c.K},
        lse{c.B, c.H, c.T} {}

  void forward(Device& device) const {
    OneNode(device, ops::kAttention, attrs, {{p.qkv, qkv}, {p.positions, {qkv[0]}}},
            {{p.out, out}, {p.lse, lse}});
  }
  void backward(Device& device) const {
    OneNode(device, ops::kAttentionBackward, attrs,
            {{p.qkv, qkv}, {p.positions, {qkv[0]}}, {p.out, out}, {p.lse, lse}, {p.d_out, out}},
            {{p.d_qkv, qkv}});
  }
};

inline void check_attention(Device& device) {
  for (const auto& c : kAttentionCases) {
    if (!is_small(c)) continue;
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const AttentionNode node(c, dtype);
      node.forward(device);
      check_results(attention_forward_results(node.p));
    }
  }
}

inline void check_attention_backward(Device& device) {
  for (const auto& c : kAttentionCases) {
    if (!is_small(c)) continue;
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const AttentionNode node(c, dtype);
      node.forward(device);
      node.backward(device);
      check_results(attention_backward_results(node.p).results);
    }
  }
}

// A sequence in two steps: its first tokens, and then the last alone.
inline void check_attention_cached(Device& device) {
  for (const auto& c : kAttentionCases) {
    if (c.B > 1 || c.document > 0 || !is_small(c)) continue;
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      const AttentionNode node(c, dtype);
      const AttentionCache cache(node.p);
      for (const Buffer* b : {&cache.k, &cache.v})
        std::memset(b->data(), 0, size_t(b->size()) * size_of(dtype));
      for (const auto& [first, n] : {std::pair(int64_t(0), c.T - 1), std::pair(c.T - 1, int64_t(1))}) {
        const int64_t in = node.qkv[1], width = node.out[1], size = int64_t(size_of(dtype));
        Buffer qkv(dtype, n * in), out(dtype, n * width), at(DType::i32, 1);
        at.as<int32_t>()[0] = int32_t(first);
        std::memcpy(qkv.data(), node.p.qkv.as<char>() + first * in * size, size_t(n * in * size));
        AttentionAttrs attrs = node.attrs;
        attrs.T = int(n);
        const Shape rows{cache.T_max, c.KV, c.K};
        OneNode(device, ops::kAttentionCached, attrs, {{qkv, {n, in}}, {at, {1}}}, {{out, {n, width}}},
                {{cache.k, rows}, {cache.v, rows}});
        std::memcpy(node.p.out.as<char>() + first * width * size, out.data(), size_t(n * width * size));
      }
      check_results({attention_forward_results(node.p).front()});
    }
  }
}

}  // namespace genesis
