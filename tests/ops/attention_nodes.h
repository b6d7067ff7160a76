#pragma once

#include <algorithm>
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

template <class Body>
void for_each_attention_node(const Body& body) {
  for (const auto& c : kAttentionCases) {
    if (!is_small(c)) continue;
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      body(AttentionNode(c, dtype));
    }
  }
}

inline void check_attention(Device& device) {
  for_each_attention_node([&](const AttentionNode& node) {
    node.forward(device);
    check_results(attention_forward_results(node.p));
  });
}

inline void check_attention_backward(Device& device) {
  for_each_attention_node([&](const AttentionNode& node) {
    node.forward(device);
    node.backward(device);
    check_results(attention_backward_results(node.p).results);
  });
}

// Sequences in two steps: the first tokens of all, and then the last of each beside a row that is none.
inline void check_attention_cached(Device& device) {
  for (const auto& c : kAttentionCases) {
    if (c.document > 0 || !is_small(c)) continue;
    for (const DType dtype : kFloatTypes) {
      INFO(c.name << ", " << name_of(dtype));
      AttentionNode node(c, dtype);
      std::vector<AttentionCache::Token> first, last = {{-1, 0}};
      for (int64_t b = 0; b < c.B; ++b) {
        for (int64_t t = 0; t < c.T; ++t) (t < c.T - 1 ? first : last).push_back({b, t});
      }
      const AttentionCache cache(node.p, int64_t(std::max(first.size(), last.size())));
      for (const Buffer* b : {&cache.k, &cache.v})
        std::memset(b->data(), 0, size_t(b->size()) * size_of(dtype));
      for (const auto& step : {first, last}) {
        const auto n = int64_t(step.size());
        if (n == 0) continue;
        cache.step(step);
        Buffer slot(DType::i32, n), positions(DType::i32, n), qkv(dtype, n * node.qkv[1]),
            out(dtype, n * node.out[1]);
        for (const auto& [to, from] : {std::pair(&slot, &cache.slot), std::pair(&positions, &cache.positions),
                                       std::pair(&qkv, &cache.qkv)}) {
          std::memcpy(to->data(), from->data(), size_t(to->size()) * size_of(to->dtype()));
        }
        AttentionAttrs attrs = node.attrs;
        attrs.B = 1;
        attrs.T = int(n);
        const Shape rows{cache.slots, cache.T_max, c.KV, c.K};
        OneNode(device, ops::kAttentionCached, attrs,
                {{qkv, {n, node.qkv[1]}}, {slot, {n}}, {positions, {n}}}, {{out, {n, node.out[1]}}},
                {{cache.k, rows}, {cache.v, rows}});
        std::memcpy(cache.out.data(), out.data(), size_t(out.size()) * size_of(dtype));
        CHECK(cache.collect(step));
      }
      check_results({attention_forward_results(node.p).front()});
    }
  }
}

}  // namespace genesis
