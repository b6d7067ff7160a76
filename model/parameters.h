// The model's parameters: all that is to be known of each of them, in one table. Graph, initialisation, optimizer
// and reports read it.
#pragma once

#include <string>
#include <vector>

#include "engine/core/shape.h"
#include "io/config.h"

namespace genesis {

enum class ParameterGroup { embedding, attention, feed_forward, norms, head };
const char* name_of(ParameterGroup group);

// A tensor of a Hugging Face folder (LlamaForCausalLM) that is some rows of one of our parameters.
struct OutsideTensor {
  std::string name;
  int64_t first_row = 0, rows = 0;
};

struct Parameter {
  std::string name;
  Shape shape;  // a matrix is [out, in]
  ParameterGroup group;
  double init_std = 0;  // deviation of its initial values, which are normal around 0; 0: all of them are 1
  bool decay = false;   // by the optimizer's weight decay: matrices, and not the norms' weights
  std::vector<OutsideTensor> outside;  // in the order of their rows, which are all of the parameter's
};

// Rows of the matrices that a layer's weight is made of, one below the other: of queries, keys and values, of gate
// and up, or of itself. Empty for what is no layer's matrix.
std::vector<int64_t> layer_matrices(const Parameter& parameter);

// By name (linear weights are [out, in], as in the checkpoint), in the order of the graph's values:
//   embed.weight [V, D]; for each stored layer i
//   layers.i.attn_norm.weight [D]       layers.i.attn.qkv.weight [(H + 2 KV) K, D]
//   layers.i.attn.out.weight [D, H K]   layers.i.ffn_norm.weight [D]
//   layers.i.ffn.gate_up.weight [2 F, D]   layers.i.ffn.down.weight [D, F]
// norm.weight [D]; head.weight [V, D] unless tied. All but the norms' begin with init_std; with scale_residual_init
// the projections that write to the residual stream (attn.out, ffn.down) with init_std / sqrt(2 x executions).
std::vector<Parameter> parameters(const Config::Model& model);

// Number of parameters, exactly: the sum over the table.
int64_t parameter_count(const Config::Model& model);

}  // namespace genesis
