// The models of docs/design.md: parameters, executions, initialisation.
#include "engine/runtime/parameters.h"

#include <set>

#include "engine/build/builder.h"
#include "model/decoder.h"
#include "model/executions.h"
#include "model/init.h"
#include "model/parameters.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/trainee.h"

using namespace genesis;

namespace {

Config::Model model_of(const std::string& config) {
  return load_config(GENESIS_SOURCE_DIR "/configs/" + config + ".yaml").model;
}

struct Moments {
  double mean = 0, deviation = 0;
};
Moments moments(const std::vector<float>& values) {
  Moments m;
  for (float v : values) m.mean += double(v) / double(values.size());
  for (float v : values) m.deviation += (v - m.mean) * (v - m.mean) / double(values.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

// A storage with the model's parameters in f32.
struct Model {
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage{*device};
  Config::Model config;

  explicit Model(const Config::Model& config) : config(config) {
    const Graph graph = build_loss_graph(config, {1, 8, false}, DType::f32, 1);
    storage.bind(graph.values);
  }
  Model& initialise(uint64_t seed) {
    initialise_parameters(config, seed, storage);
    return *this;
  }
  std::vector<float> get(const std::string& name) const { return get_parameter(storage, name); }
};

Config::Model wide_model() {
  Config::Model m = tiny_model();
  m.hidden_size = 64;
  m.ffn_size = 128;
  m.vocab_size = 600;
  return m;
}

}  // namespace

TEST_CASE("models: the configs have exactly the parameters that the design says") {
  CHECK(parameter_count(model_of("genesis_1b_run1")) == 1'002'522'624);
  CHECK(parameter_count(model_of("genesis_1b")) == 1'000'441'344);
  CHECK(parameter_count(model_of("nano_1b")) == 1'076'700'672);
  CHECK(parameter_count(model_of("nano_1b_recurrent")) == 1'076'700'672);
  // V D + layers (2 D + D (H + 2 KV) K + H K D + 3 D F) + D
  const int64_t layer = 2 * 192 + 192 * (3 + 2 * 3) * 64 + 3 * 64 * 192 + 3 * 192 * 512;
  CHECK(parameter_count(model_of("quickstart")) == 4096 * 192 + 6 * layer + 192);
  CHECK(parameter_count(model_of("quickstart_recurrent")) == 4096 * 192 + 6 * layer + 192);
}

TEST_CASE("models: parameters by name and shape") {
  Config::Model m = tiny_model();
  const auto names_of = [](const Config::Model& model, int64_t recurrence) {
    std::map<std::string, std::string> names;
    const Graph graph = build_loss_graph(model, {1, 8, false}, DType::bf16, recurrence);
    for (ValueId id : graph.with_role(Role::parameter)) {
      names[graph.value(id).name] = name_of(graph.value(id).dtype) + graph.value(id).shape.to_string();
    }
    return names;
  };
  m.layers = 1;
  const std::map<std::string, std::string> tied = {
      {"embed.weight", "bf16[37, 24]"},
      {"layers.0.attn_norm.weight", "bf16[24]"},
      {"layers.0.attn.qkv.weight", "bf16[64, 24]"},
      {"layers.0.attn.out.weight", "bf16[24, 32]"},
      {"layers.0.ffn_norm.weight", "bf16[24]"},
      {"layers.0.ffn.gate_up.weight", "bf16[42, 24]"},
      {"layers.0.ffn.down.weight", "bf16[24, 21]"},
      {"norm.weight", "bf16[24]"},
  };
  CHECK(names_of(m, 1) == tied);
  m.tie_embeddings = false;
  auto untied = tied;
  untied["head.weight"] = "bf16[37, 24]";
  CHECK(names_of(m, 1) == untied);
  m.qk_norm = true;
  auto normed = untied;
  normed["layers.0.attn.q_norm.weight"] = normed["layers.0.attn.k_norm.weight"] = "bf16[8]";
  CHECK(names_of(m, 1) == normed);
  // Recurrence adds no parameter, however often the core runs.
  const Config::Model recurrent = tiny_recurrent_model();
  CHECK(names_of(recurrent, 1).size() == 4 * 6 + 2);
  CHECK(names_of(recurrent, 5) == names_of(recurrent, 1));
}

TEST_CASE("models: the table of parameters is what the graph has, in its order") {
  for (const char* config : {"genesis_1b", "nano_1b_recurrent", "quickstart"}) {
    Config::Model m = model_of(config);
    m.qk_norm = m.recurrence.core > 0;
    const Graph graph = build_loss_graph(m, {1, 8, false}, DType::bf16, trained_recurrence(m));
    const std::vector<Parameter> table = parameters(m);
    const std::vector<ValueId> values = graph.with_role(Role::parameter);
    REQUIRE(table.size() == values.size());
    for (size_t i = 0; i < table.size(); ++i) {
      CHECK(table[i].name == graph.value(values[i]).name);
      CHECK(table[i].shape == graph.value(values[i]).shape);
      const bool norm = table[i].group == ParameterGroup::norms;
      CHECK(table[i].decay == !norm);
      CHECK((table[i].init_std > 0) == !norm);
      CHECK((table[i].shape.rank() == 1) == norm);
    }
  }
}

TEST_CASE("models: each parameter is rows of tensors that a Llama or a Qwen3 of Hugging Face has") {
  Config::Model m = tiny_model();
  m.layers = 1;
  m.tie_embeddings = false;
  m.qk_norm = true;
  std::map<std::string, std::string> found;
  for (const Parameter& p : parameters(m)) {
    int64_t rows = 0;
    for (const OutsideTensor& t : p.outside) {
      CHECK(t.first_row == rows);
      rows += t.rows;
      found[t.name] = p.name + " " + std::to_string(t.first_row) + "+" + std::to_string(t.rows);
    }
    CHECK(rows == p.shape[0]);
  }
  // LlamaForCausalLM's names, and of the norms of queries and keys Qwen3ForCausalLM's; 4 heads and 2 key heads of 8, 21 feed-forward columns.
  const std::map<std::string, std::string> expected = {
      {"model.embed_tokens.weight", "embed.weight 0+37"},
      {"model.layers.0.input_layernorm.weight", "layers.0.attn_norm.weight 0+24"},
      {"model.layers.0.self_attn.q_proj.weight", "layers.0.attn.qkv.weight 0+32"},
      {"model.layers.0.self_attn.k_proj.weight", "layers.0.attn.qkv.weight 32+16"},
      {"model.layers.0.self_attn.v_proj.weight", "layers.0.attn.qkv.weight 48+16"},
      {"model.layers.0.self_attn.q_norm.weight", "layers.0.attn.q_norm.weight 0+8"},
      {"model.layers.0.self_attn.k_norm.weight", "layers.0.attn.k_norm.weight 0+8"},
      {"model.layers.0.self_attn.o_proj.weight", "layers.0.attn.out.weight 0+24"},
      {"model.layers.0.post_attention_layernorm.weight", "layers.0.ffn_norm.weight 0+24"},
      {"model.layers.0.mlp.gate_proj.weight", "layers.0.ffn.gate_up.weight 0+21"},
      {"model.layers.0.mlp.up_proj.weight", "layers.0.ffn.gate_up.weight 21+21"},
      {"model.layers.0.mlp.down_proj.weight", "layers.0.ffn.down.weight 0+24"},
      {"model.norm.weight", "norm.weight 0+24"},
      {"lm_head.weight", "head.weight 0+37"},
  };
  CHECK(found == expected);
}

TEST_CASE("executions: every layer once, or the core several times") {
  const auto run = [](const Config::Model& model, int64_t recurrence) {
    std::string text;
    for (const Execution& e : executions(model, recurrence)) {
      if (!text.empty()) text += " ";
      text += std::to_string(e.layer) + "=" + e.name;
    }
    return text;
  };
  CHECK(run(tiny_model(), 1) == "0=layers.0 1=layers.1");
  CHECK(run(tiny_recurrent_model(), 1) == "0=layers.0 1=layers.1 2=layers.2 3=layers.3");
  CHECK(run(tiny_recurrent_model(), 2) ==
        "0=layers.0 1=layers.1[0] 2=layers.2[0] 1=layers.1[1] 2=layers.2[1] 3=layers.3");
  CHECK(executions(model_of("nano_1b"), 1).size() == 24);
  CHECK(trained_recurrence(model_of("nano_1b")) == 1);
  const Config::Model nano = model_of("nano_1b_recurrent");
  CHECK(trained_recurrence(nano) == 2);
  CHECK(executions(nano, trained_recurrence(nano)).size() == 40);
}

TEST_CASE("init: norm weights are 1, all else has mean 0 and the deviation asked for") {
  Config::Model config = wide_model();
  config.tie_embeddings = false;
  config.init_std = 0.03;
  Model model(config);
  model.initialise(1);
  for (const auto* array : model.storage.with_role(Role::parameter)) {
    INFO(array->value.name);
    const std::vector<float> values = model.get(array->value.name);
    if (array->value.shape.rank() == 1) {
      CHECK(values == std::vector<float>(values.size(), 1.f));
      continue;
    }
    // Five standard errors: of a mean s / sqrt(n), of a deviation s / sqrt(2 n).
    const Moments m = moments(values);
    const double error = 0.03 / std::sqrt(double(values.size()));
    CHECK(std::abs(m.mean) < 5 * error);
    CHECK(std::abs(m.deviation - 0.03) < 5 * error / std::sqrt(2.0));
  }
}

TEST_CASE("init: projections to the residual stream are scaled by 1 / sqrt(2 executions)") {
  for (const bool recurrent : {false, true}) {
    Config::Model config = wide_model();
    double runs = 2;
    if (recurrent) {
      config.layers = 4;
      config.recurrence = tiny_recurrent_model().recurrence;
      runs = 6;
    }
    Model plain(config);
    plain.initialise(1);
    config.scale_residual_init = true;
    Model scaled(config);
    scaled.initialise(1);
    int residual = 0;
    for (const auto* array : plain.storage.with_role(Role::parameter)) {
      const std::string& name = array->value.name;
      INFO(name);
      const auto before = plain.get(name), after = scaled.get(name);
      if (!name.ends_with("attn.out.weight") && !name.ends_with("ffn.down.weight")) {
        CHECK(before == after);
        continue;
      }
      ++residual;
      CHECK(moments(after).deviation ==
            Approx(moments(before).deviation / std::sqrt(2 * runs)).epsilon(1e-5));
    }
    CHECK(residual == 2 * config.layers);
  }
}

TEST_CASE("init: an element is a function of seed, name and index") {
  Model a(wide_model()), b(wide_model()), other_seed(wide_model());
  a.initialise(1);
  b.initialise(1);
  other_seed.initialise(2);
  Config::Model deeper = wide_model();
  deeper.layers = 5;
  deeper.tie_embeddings = false;
  Model c(deeper);
  c.initialise(1);
  std::set<std::vector<float>> beginnings;
  for (const auto* array : a.storage.with_role(Role::parameter)) {
    const std::string& name = array->value.name;
    INFO(name);
    CHECK(a.get(name) == b.get(name));
    CHECK(a.get(name) == c.get(name));  // whatever else there is
    if (array->value.shape.rank() == 1) continue;
    CHECK(a.get(name) != other_seed.get(name));
    const std::vector<float> values = a.get(name);
    CHECK(beginnings.insert({values.begin(), values.begin() + 16}).second);  // no two tensors alike
  }
}

TEST_CASE("init: the first loss of a fresh model is about ln V") {
  for (const bool tied : {true, false}) {
    Config::Model config = wide_model();
    config.tie_embeddings = tied;
    Trainee trainee(config, {4, 32, false}, 1);
    initialise_parameters(config, 1, trainee.storage());
    trainee.begin();
    trainee.micro(random_batch(config.vocab_size, 4, 32, false, 9));
    REQUIRE(trainee.count() > 60);
    const double loss = trainee.loss() / trainee.count();
    // Logits of variance s^2 = D init_std^2 cost s^2 / 2, and a target's own logit strays by s from row to
    // row.
    const double variance = double(config.hidden_size) * config.init_std * config.init_std;
    const double strays = 4 * std::sqrt(variance / trainee.count());
    CHECK(std::abs(loss - std::log(double(config.vocab_size)) - variance / 2) < strays + variance / 2);
  }
}

TEST_CASE("parameters: set and read back, rounded to nearest for the model, exact in the master") {
  Trainee trainee(tiny_model(), {1, 8, false}, 1, {.dtype = DType::bf16});
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1 + float(i) / 1024;
  set_parameter(trainee.storage(), "norm.weight", values);
  CHECK(get_parameter(trainee.storage(), "norm.weight") == values);
  const std::vector<double> copy = trainee.read("norm.weight");
  bool rounded = false;
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(copy[i] == double(float(bf16(values[i]))));
    rounded |= copy[i] != double(values[i]);
  }
  CHECK(rounded);
  CHECK(master_of(trainee.storage(), "norm.weight")->value.name == "master.norm.weight");

  Trainee f32(tiny_model(), {1, 8, false}, 1);
  CHECK(master_of(f32.storage(), "norm.weight")->value.name == "norm.weight");
  for (const char* name : {"nothing", kTokens, "d.norm.weight"}) {
    const std::string expected = "there is no parameter named '" + std::string(name) + "'";
    CHECK(message_of([&] { set_parameter(f32.storage(), name, values); }) == expected);
    CHECK(message_of([&] { get_parameter(f32.storage(), name); }) == expected);
  }
  values.pop_back();
  CHECK(message_of([&] { set_parameter(f32.storage(), "norm.weight", values); }) ==
        "'norm.weight' has 96 bytes, not 92");
}

TEST_CASE("parameters: a model that only computes has no master") {
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage(*device);
  const Graph graph = build_loss_graph(tiny_model(), {1, 8, false}, DType::bf16, 1);
  storage.bind(graph.values);
  CHECK(master_of(storage, "norm.weight") == nullptr);
  set_parameter(storage, "norm.weight", std::vector<float>(24, 1.f + 1.f / 1024));
  CHECK(get_parameter(storage, "norm.weight") == std::vector<float>(24, 1.f));
}
