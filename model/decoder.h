// Llama-style decoder-only models as graphs (Touvron et al. 2023, arXiv:2302.13971): pre-norm blocks,
// RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases. Dense and depth-recurrent models
// differ in their list of executions alone.
// Their parameters: model/parameters.h.
#pragma once

#include "engine/graph/graph.h"
#include "io/config.h"
#include "kernels/cross_entropy/loss_sum.h"

namespace genesis {

// Inputs and results of the graphs, by name.
constexpr const char* kTokens = "tokens";                // i32 [B T]
constexpr const char* kTargets = "targets";              // i32 [B T], negative: ignored
constexpr const char* kPositions = "positions";          // i32 [B T], from the start of a document
constexpr const char* kLossAndCount = "loss_and_count";  // a LossSum: of cross-entropies, of valid targets
constexpr const char* kSlots = "slots";                  // i32 [n]: where in the cache a token's sequence is
constexpr const char* kLogits = "logits";                // f32 [n, V]
constexpr const char* kHidden = "hidden";                // [B T, D] in the model's type: what the head reads
constexpr const char* kHeadRows = "head_rows";           // [n, D] of the same
// Generation has graphs for several n in one storage: "tokens.64", "slots.64", "positions.64", "logits.64".
std::string for_count(const char* name, int64_t n);

struct BatchShape {
  int64_t B = 0, T = 0;
  bool document_mask = false;
};

// Phase micro adds the batch's summed cross-entropy and its number of valid targets to loss_and_count; phase begin
// sets that to zero.
Graph build_loss_graph(const Config::Model& model, const BatchShape& batch, DType dtype, int64_t recurrence);

// What generation remembers: so many sequences at a time, of so many tokens at most.
struct CacheShape {
  int64_t slots = 1, T_max = 0;
};

// Extends sequences by n tokens in all and gives those tokens' logits, as kernels/attention/attention.h says of
// AttentionCached: each has its sequence's slot (negative: none, and logits of no meaning) and its position. There is
// a cache an execution.
Graph build_generation_graph(const Config::Model& model, int64_t n, const CacheShape& cache, DType dtype,
                             int64_t recurrence);

// For the log-probabilities of given tokens: the model up to its head, with a document mask, and the head on n of
// its rows, so that logits exist for few rows at a time and for those alone that are asked for.
Graph build_hidden_graph(const Config::Model& model, int64_t B, int64_t T, DType dtype, int64_t recurrence);
Graph build_head_graph(const Config::Model& model, int64_t n, DType dtype);

}  // namespace genesis
