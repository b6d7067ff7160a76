#include "model/parameters.h"

#include <cmath>

#include "model/executions.h"

namespace genesis {

const char* name_of(ParameterGroup group) {
  constexpr const char* kNames[] = {"embedding", "attention", "feed-forward", "norms", "output head"};
  return kNames[int(group)];
}

namespace {

using Group = ParameterGroup;

Parameter norm(const std::string& name, int64_t D, const std::string& outside) {
  return {name + ".weight", {D}, Group::norms, 0, false, {{outside + ".weight", 0, D}}};
}

struct Part {
  std::string outside;
  int64_t rows;
};

// A matrix of the rows of one or several that have names of their own outside.
Parameter matrix(const std::string& name, Group group, int64_t in, double std_dev,
                 const std::vector<Part>& parts) {
  Parameter p{name + ".weight", {}, group, std_dev, true, {}};
  int64_t rows = 0;
  for (const Part& part : parts) {
    p.outside.push_back({part.outside + ".weight", rows, part.rows});
    rows += part.rows;
  }
  p.shape = {rows, in};
  return p;
}

}  // namespace

std::vector<Parameter> parameters(const Config::Model& m) {
  const int64_t V = m.vocab_size, D = m.hidden_size, F = m.ffn_size;
  const int64_t Q = m.heads * m.head_size, KV = m.kv_heads * m.head_size;
  const double runs = double(executions(m, trained_recurrence(m)).size());
  const double std_dev = m.init_std;
  const double residual = std_dev * (m.scale_residual_init ? 1 / std::sqrt(2 * runs) : 1);

  std::vector<Parameter> all{matrix("embed", Group::embedding, D, std_dev, {{"model.embed_tokens", V}})};
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string ours = "layers." + std::to_string(i) + ".", theirs = "model." + ours;
    const std::string attn = theirs + "self_attn.", mlp = theirs + "mlp.";
    all.push_back(norm(ours + "attn_norm", D, theirs + "input_layernorm"));
    all.push_back(matrix(ours + "attn.qkv", Group::attention, D, std_dev,
                         {{attn + "q_proj", Q}, {attn + "k_proj", KV}, {attn + "v_proj", KV}}));
    if (m.qk_norm) {
      all.push_back(norm(ours + "attn.q_norm", m.head_size, attn + "q_norm"));
      all.push_back(norm(ours + "attn.k_norm", m.head_size, attn + "k_norm"));
    }
    all.push_back(matrix(ours + "attn.out", Group::attention, Q, residual, {{attn + "o_proj", D}}));
    all.push_back(norm(ours + "ffn_norm", D, theirs + "post_attention_layernorm"));
    all.push_back(matrix(ours + "ffn.gate_up", Group::feed_forward, D, std_dev,
                         {{mlp + "gate_proj", F}, {mlp + "up_proj", F}}));
    all.push_back(matrix(ours + "ffn.down", Group::feed_forward, F, residual, {{mlp + "down_proj", D}}));
  }
  all.push_back(norm("norm", D, "model.norm"));
  if (!m.tie_embeddings) all.push_back(matrix("head", Group::head, D, std_dev, {{"lm_head", V}}));
  return all;
}

std::vector<int64_t> layer_matrices(const Parameter& p) {
  std::vector<int64_t> rows;
  if (p.group != Group::attention && p.group != Group::feed_forward) return rows;
  for (const OutsideTensor& part : p.outside) rows.push_back(part.rows);
  return rows;
}

int64_t parameter_count(const Config::Model& m) {
  int64_t count = 0;
  for (const Parameter& p : parameters(m)) count += p.shape.elements();
  return count;
}

}  // namespace genesis
