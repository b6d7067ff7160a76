#include "model/hugging_face.h"

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/tokenizer_json.h"

namespace genesis {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& json) { return json.dump(2) + "\n"; }

ordered_json model_config(const Config& config, DType dtype, const Tokenizer* tokenizer, int32_t eod) {
  const Config::Model& m = config.model;
  const std::string type = outside_model_type(m), dtype_name = dtype == DType::bf16 ? "bfloat16" : "float32";
  const char* const architecture = type == "llama"   ? "LlamaForCausalLM"
                                   : type == "qwen3" ? "Qwen3ForCausalLM"
                                                     : "GenesisForCausalLM";
  // dtype and rope_parameters are transformers 5's names; torch_dtype and rope_theta those of 4.
  ordered_json json{{"architectures", {architecture}},
                    {"model_type", type},
                    {"vocab_size", m.vocab_size},
                    {"hidden_size", m.hidden_size},
                    {"intermediate_size", m.ffn_size},
                    {"num_hidden_layers", m.layers},
                    {"num_attention_heads", m.heads},
                    {"num_key_value_heads", m.kv_heads},
                    {"head_dim", m.head_size},
                    {"hidden_act", "silu"},
                    {"max_position_embeddings", config.data.sequence_length},
                    {"initializer_range", m.init_std},
                    {"rms_norm_eps", m.norm_eps},
                    {"use_cache", true},
                    {"tie_word_embeddings", m.tie_embeddings},
                    {"rope_theta", m.rope_theta},
                    {"rope_scaling", nullptr},
                    {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", m.rope_theta}}},
                    {"attention_bias", false},
                    {"attention_dropout", 0.0},
                    {"mlp_bias", false},
                    {"bos_token_id", eod},
                    {"eos_token_id", eod},
                    {"pad_token_id", nullptr},
                    {"dtype", dtype_name},
                    {"torch_dtype", dtype_name}};
  if (type == "qwen3") {
    json["use_sliding_window"] = false;
    json["sliding_window"] = nullptr;
  }
  if (type == "genesis") {
    json["qk_norm"] = m.qk_norm;
    json["rope_interleaved"] = m.rope_interleaved;
    json["swiglu_clamp"] = m.swiglu_clamp;
    if (const Config::Recurrence& r = m.recurrence; r.core > 0) {
      json["recurrence"] = {{"prelude", r.prelude}, {"core", r.core}, {"coda", r.coda}, {"steps", r.steps}};
    }
  }
  // Rows of the embedding beyond the tokenizer's pieces are padding.
  if (tokenizer != nullptr && tokenizer->vocab_size() < m.vocab_size) {
    json["unpadded_vocab_size"] = tokenizer->vocab_size();
  }
  return json;
}

// tokenizer.json says how text becomes tokens. A special token's name in a text is text, as it is here.
ordered_json tokenizer_config(const Config& config, const std::string& eod) {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"bos_token", eod},
          {"eos_token", eod},
          {"add_prefix_space", false},
          {"clean_up_tokenization_spaces", false},
          {"split_special_tokens", true},
          {"model_max_length", config.data.sequence_length}};
}

}  // namespace

std::string outside_model_type(const Config::Model& m) {
  if (m.recurrence.core > 0 || m.rope_interleaved || m.swiglu_clamp > 0) return "genesis";
  return m.qk_norm ? "qwen3" : "llama";
}

std::vector<CheckpointFile> hugging_face_files(const Config& config, DType dtype, const Tokenizer* tokenizer,
                                               int32_t eod) {
  const ordered_json generation{{"bos_token_id", eod}, {"eos_token_id", eod}};
  std::vector<CheckpointFile> files{{"config.json", text_of(model_config(config, dtype, tokenizer, eod))},
                                    {"generation_config.json", text_of(generation)}};
  if (tokenizer == nullptr) return files;
  files.push_back({"tokenizer.model", read_text_file(tokenizer->path().string())});
  if (const auto json = tokenizer_json(*tokenizer)) {
    files.push_back({"tokenizer.json", json->text});
    files.push_back({"tokenizer_config.json", text_of(tokenizer_config(config, json->eod))});
  }
  return files;
}

}  // namespace genesis
