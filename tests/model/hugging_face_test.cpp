// What others find in a checkpoint's folder: whose classes its config.json names, and with what.
#include "model/hugging_face.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/tokenizer_json.h"
#include "tests/io/small_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace genesis;
using nlohmann::json;

namespace {

Config config_of(const std::vector<std::string>& overrides) {
  return parse_config(
      "run_dir: run\n"
      "model: {vocab_size: 640, hidden_size: 32, layers: 2, heads: 2, kv_heads: 1, head_size: 16,\n"
      "        ffn_size: 48, tie_embeddings: true, rope_theta: 20000, norm_eps: 1e-6}\n"
      "data: {train: t, sequence_length: 96}\n"
      "train: {steps: 9, batch_size: 1, micro_batch: 1}\n"
      "optim: {lr: 1e-3}\n",
      "c.yaml", overrides);
}

std::map<std::string, std::string> files_of(const Config& config, DType dtype, const Tokenizer* tokenizer) {
  std::map<std::string, std::string> files;
  for (const CheckpointFile& f : hugging_face_files(config, dtype, tokenizer, 7)) files[f.name] = f.content;
  return files;
}

json config_json(const std::vector<std::string>& overrides, DType dtype = DType::f32) {
  return json::parse(files_of(config_of(overrides), dtype, nullptr).at("config.json"));
}

}  // namespace

TEST_CASE("a dense model is a Llama to others, with every number that a LlamaConfig has") {
  const json c = config_json({}, DType::bf16);
  CHECK(c["architectures"] == json{"LlamaForCausalLM"});
  const json expected{{"model_type", "llama"},    {"vocab_size", 640},
                      {"hidden_size", 32},        {"intermediate_size", 48},
                      {"num_hidden_layers", 2},   {"num_attention_heads", 2},
                      {"num_key_value_heads", 1}, {"head_dim", 16},
                      {"hidden_act", "silu"},     {"max_position_embeddings", 96},
                      {"rms_norm_eps", 1e-6},     {"tie_word_embeddings", true},
                      {"rope_theta", 20000.0},    {"attention_bias", false},
                      {"mlp_bias", false},        {"bos_token_id", 7},
                      {"eos_token_id", 7},        {"dtype", "bfloat16"},
                      {"torch_dtype", "bfloat16"}};
  for (const auto& [name, value] : expected.items()) {
    INFO(name);
    CHECK(c[name] == value);
  }
  CHECK(c["rope_parameters"] == json{{"rope_type", "default"}, {"rope_theta", 20000.0}});
  CHECK_FALSE(c.contains("unpadded_vocab_size"));
  CHECK(config_json({"--model.tie_embeddings=false"})["tie_word_embeddings"] == false);
  CHECK(config_json({})["dtype"] == "float32");
}

TEST_CASE("normalised queries and keys are Qwen3's") {
  const json c = config_json({"--model.qk_norm=true"});
  CHECK(c["architectures"] == json{"Qwen3ForCausalLM"});
  CHECK(c["model_type"] == "qwen3");
  CHECK(c["use_sliding_window"] == false);
}

TEST_CASE("what no library has is not called by the name of what it is not") {
  const std::vector<std::string> recurrent{"--model.layers=4", "--model.recurrence.prelude=1",
                                           "--model.recurrence.core=2", "--model.recurrence.coda=1",
                                           "--model.recurrence.steps=3"};
  for (const auto& overrides :
       {recurrent, {"--model.rope_interleaved=true"}, {"--model.swiglu_clamp=7", "--model.qk_norm=true"}}) {
    const json c = config_json(overrides);
    INFO(overrides[0]);
    CHECK(c["model_type"] == "genesis");
    CHECK(c["architectures"] == json{"GenesisForCausalLM"});
  }
  CHECK(config_json(recurrent)["recurrence"] == json{{"prelude", 1}, {"core", 2}, {"coda", 1}, {"steps", 3}});
  const json clamped = config_json({"--model.swiglu_clamp=7", "--model.qk_norm=true"});
  CHECK(clamped["swiglu_clamp"] == 7);
  CHECK(clamped["qk_norm"] == true);
  CHECK(config_json({"--model.rope_interleaved=true"})["rope_interleaved"] == true);
}

TEST_CASE("a padded vocabulary stays padded, and config.json tells how many pieces the tokenizer has") {
  TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  REQUIRE(tokenizer.vocab_size() == 600);
  const auto files = files_of(config_of({}), DType::f32, &tokenizer);
  const json c = json::parse(files.at("config.json"));
  CHECK(c["vocab_size"] == 640);
  CHECK(c["unpadded_vocab_size"] == 600);
  CHECK(files.at("tokenizer.model") == read_text_file(folder.file("t.model")));
  CHECK(files.at("tokenizer.json") == tokenizer_json(tokenizer)->text);
  const json t = json::parse(files.at("tokenizer_config.json"));
  CHECK(t["tokenizer_class"] == "PreTrainedTokenizerFast");
  CHECK(t["bos_token"] == "</s>");
  CHECK(t["eos_token"] == "</s>");
  CHECK(t["split_special_tokens"] == true);
  CHECK(t["model_max_length"] == 96);
  CHECK(json::parse(files.at("generation_config.json")) == json{{"bos_token_id", 7}, {"eos_token_id", 7}});
  const auto same = files_of(config_of({"--model.vocab_size=600"}), DType::f32, &tokenizer);
  CHECK_FALSE(json::parse(same.at("config.json")).contains("unpadded_vocab_size"));
}
