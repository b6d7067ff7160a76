// What makes a checkpoint's folder a model that others load, beside its weights (huggingface.co/docs/transformers:
// LlamaConfig, Qwen3Config, PreTrainedTokenizerFast).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/config.h"
#include "io/tokenizer.h"
#include "kernels/common/dtype.h"

namespace genesis {

// "llama", "qwen3" (a Llama whose queries and keys are normalised), or "genesis" for what neither of them is: layers
// that run more than once, interleaved RoPE, a clamped SwiGLU. That one no other library takes for what it isn't.
std::string outside_model_type(const Config::Model& model);

// config.json and generation_config.json; with a tokenizer tokenizer.model, and tokenizer.json and tokenizer_config.json
// where it has that form (io/tokenizer_json.h). `dtype` is the weights'. `eod` ends a document, and comes before the
// first token of each.
std::vector<CheckpointFile> hugging_face_files(const Config& config, DType dtype, const Tokenizer* tokenizer,
                                               int32_t eod);

}  // namespace genesis
