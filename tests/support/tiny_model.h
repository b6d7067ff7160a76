// Models small enough for a reference in scalar loops, and batches and weights for them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "io/config.h"
#include "io/loader.h"
#include "kernels/common/random.h"

namespace genesis {

// Sequences with their targets, and what the model is to make of their positions.
struct TokenBatch : Batch {
  bool document_mask = false;
};

// Two layers, grouped-query attention, odd sizes where they may be odd; tied.
inline Config::Model tiny_model() {
  Config::Model m;
  m.vocab_size = 37;
  m.hidden_size = 24;
  m.layers = 2;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_size = 8;
  m.ffn_size = 21;
  m.tie_embeddings = true;
  m.rope_theta = 100;
  return m;
}

// Four stored layers, of which the middle two are run twice.
inline Config::Model tiny_recurrent_model() {
  Config::Model m = tiny_model();
  m.layers = 4;
  m.recurrence = {.prelude = 1, .core = 2, .coda = 1, .steps = 2};
  return m;
}

// Random tokens. About one target in five is ignored, and with a document mask a document ends about every
// six tokens.
inline TokenBatch random_batch(int64_t V, int64_t B, int64_t T, bool document_mask, uint64_t seed) {
  TokenBatch batch{{B, T, {}, {}, {}}, document_mask};
  for (int64_t i = 0; i < B * T; ++i) {
    const auto draw = [&](uint64_t stream, int64_t n) {
      return int32_t(random_bits(seed, stream, uint64_t(i)) % uint64_t(n));
    };
    const bool starts = i % T == 0 || (document_mask && draw(0, 6) == 0);
    batch.positions.push_back(starts ? 0 : batch.positions.back() + 1);
    batch.tokens.push_back(draw(1, V));
    batch.targets.push_back(draw(2, 5) == 0 ? -1 : draw(3, V));
  }
  return batch;
}

// Weights that keep every layer's part of the gradient in sight: rows of about unit length, norm weights
// around 1.
inline std::vector<float> random_weights(int64_t rows, int64_t columns, uint64_t seed, uint64_t stream) {
  std::vector<float> w(size_t(rows * columns));
  const bool norm = rows == 1;
  fill_normal(w.data(), int64_t(w.size()), seed, stream, norm ? 1 : 0,
              norm ? 0.2 : 1 / std::sqrt(double(columns)));
  return w;
}

}  // namespace genesis
