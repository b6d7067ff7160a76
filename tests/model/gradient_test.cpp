// The whole model's loss and the gradient of every parameter, against the double-precision reference.
#include "model/executions.h"
#include "tests/support/catch.h"
#include "tests/support/complex_step.h"
#include "tests/support/random_vector.h"
#include "tests/support/rounding_model.h"
#include "tests/support/test_device.h"
#include "tests/support/trainee.h"

using namespace genesis;

namespace {

struct ModelCase {
  std::string name;
  Config::Model model = tiny_model();
  int64_t B = 2, T = 7;
  bool document_mask = false;

  TokenBatch batch() const { return random_batch(model.vocab_size, B, T, document_mask, 5); }
};

std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> cases;
  cases.push_back({.name = "dense, tied, grouped queries"});

  ModelCase untied{.name = "dense, untied, document mask, z-loss", .T = 13, .document_mask = true};
  untied.model.tie_embeddings = false;
  untied.model.z_loss = 0.03;
  cases.push_back(untied);

  ModelCase layout{.name = "dense, interleaved rotation, a key/value head a query head, clamp"};
  layout.model.rope_interleaved = true;
  layout.model.kv_heads = 4;
  layout.model.swiglu_clamp = 1.5;
  cases.push_back(layout);

  cases.push_back({.name = "recurrent, tied", .model = tiny_recurrent_model()});

  ModelCase recurrent{.name = "recurrent, untied, document mask, one key/value head, three steps",
                      .model = tiny_recurrent_model(),
                      .T = 12,
                      .document_mask = true};
  recurrent.model.tie_embeddings = false;
  recurrent.model.kv_heads = 1;
  recurrent.model.recurrence.steps = 3;
  cases.push_back(recurrent);

  ModelCase normed{.name = "dense, norm of queries and keys"};
  normed.model.qk_norm = true;
  cases.push_back(normed);

  ModelCase normed_layout{.name =
                              "dense, untied, norm of queries and keys, interleaved rotation, one key head"};
  normed_layout.model.qk_norm = normed_layout.model.rope_interleaved = true;
  normed_layout.model.tie_embeddings = false;
  normed_layout.model.kv_heads = 1;
  cases.push_back(normed_layout);

  cases.push_back({.name = "one token", .B = 1, .T = 1});
  cases.push_back({.name = "several chunks of logits", .B = 13, .T = 21, .document_mask = true});
  return cases;
}

std::map<std::string, std::vector<double>> random_parameters(const Config::Model& model) {
  Trainee trainee(model, {1, 1, false}, trained_recurrence(model));
  trainee.set_random_weights(3);
  return trainee.weights();
}

void check_model(const ModelCase& c, DType dtype, std::unique_ptr<Device> (*device)() = make_cpu_device) {
  TokenBatch batch = c.batch();
  if (c.B * c.T == 1) batch.targets = {4};
  Trainee trainee(c.model, {c.B, c.T, c.document_mask}, trained_recurrence(c.model),
                  {.dtype = dtype, .device = device});
  trainee.set_random_weights(3);
  trainee.begin();
  trainee.micro(batch);

  const Expectation expected(c.model, trained_recurrence(c.model), trainee.weights(), batch, dtype);
  CHECK(expected.mismatch("loss", {trainee.loss()}) == "");
  const int64_t valid =
      std::count_if(batch.targets.begin(), batch.targets.end(), [](int t) { return t >= 0; });
  CHECK(trainee.count() == double(valid));
  for (const std::string& name : trainee.parameters()) {
    CHECK(expected.mismatch(name, trainee.read("d." + name)) == "");
    // The tolerance means something: it is small against what is compared.
    CHECK(expected.allowed(name) < (dtype == DType::f32 ? 1e-4 : 0.5) * expected.length(name));
  }
}

}  // namespace

TEST_CASE("reference model: its backward pass is the derivative of its loss") {
  for (const ModelCase& c : model_cases()) {
    if (c.B * c.T > 100) continue;  // complex arithmetic in scalar loops takes its time
    INFO(c.name);
    const TokenBatch batch = c.batch();
    const auto parameters = random_parameters(c.model);
    const int64_t recurrence = trained_recurrence(c.model);
    const auto gradient = ReferenceModel<double>(c.model, recurrence, parameters).run(batch).gradient;

    ReferenceModel<Complex>::Parameters complex;
    for (const auto& [name, values] : parameters) complex[name] = {values.begin(), values.end()};
    uint64_t stream = 0;
    for (const auto& [name, values] : parameters) {
      constexpr double kStep = 1e-200;
      const auto direction = random_vector(int64_t(values.size()), ++stream);
      auto moved = complex;
      double expected = 0, size = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        moved[name][i] += Complex(0, kStep * direction[i]);
        expected += gradient.at(name)[i] * direction[i];
        size += std::abs(gradient.at(name)[i] * direction[i]);
      }
      const Complex loss = ReferenceModel<Complex>(c.model, recurrence, moved).run(batch).objective;
      INFO(name);
      if (batch.targets != std::vector<int32_t>{-1}) CHECK(size > 0);
      CHECK(std::abs(std::imag(loss) / kStep - expected) <= 1e-10 * size);
    }
  }
}

TEST_CASE("model: loss and every parameter's gradient agree with the reference in f32") {
  for (const ModelCase& c : model_cases()) {
    INFO(c.name);
    check_model(c, DType::f32);
  }
}

TEST_CASE("model: loss and every parameter's gradient agree with the reference in bf16") {
  for (const ModelCase& c : model_cases()) {
    INFO(c.name);
    check_model(c, DType::bf16);
  }
}

TEST_CASE("model: loss and every parameter's gradient agree with the reference by the CUDA kernels") {
  for (const ModelCase& c : model_cases()) {
    if (c.B * c.T > 100) continue;  // the host executor takes its time
    for (const TestDevice& test : test_devices()) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        INFO(c.name << ", " << test.name << ", " << name_of(dtype));
        check_model(c, dtype, test.make);
      }
    }
  }
}
