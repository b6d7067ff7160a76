// The generation graph with its cache gives the logits of the training graph's forward pass.
#include "engine/build/builder.h"
#include "engine/ops/matmul.h"
#include "model/executions.h"
#include "tests/support/catch.h"
#include "tests/support/rounding_model.h"
#include "tests/support/trainee.h"

using namespace genesis;

namespace {

// The training graph's forward pass up to the logits, which it keeps to itself.
Graph logits_graph(const Config::Model& m, int64_t T, DType dtype, int64_t recurrence) {
  Graph graph = build_loss_graph(m, {1, T, false}, dtype, recurrence);
  const Node head_loss = graph.nodes.back();
  graph.nodes.pop_back();
  Node head;
  head.op = &ops::kMatMul;
  head.attrs = MatMulAttrs{.transpose_b = true, .f32_out = true};
  head.in = {head_loss.in[0], head_loss.in[1]};
  const NodeId id = append_node(graph, head, {kLogits});
  graph.value(graph.nodes[size_t(id)].out[0]).role = Role::result;
  return graph;
}

// A model that generates, in a storage of its own.
class Generator {
 public:
  static constexpr int64_t kSlots = 3, kRoom = 32;

  Generator(const Config::Model& m, DType dtype, int64_t recurrence, const std::vector<int64_t>& counts)
      : vocabulary_(m.vocab_size) {
    for (int64_t n : counts) {
      executables_.emplace(
          n, Executable(build_generation_graph(m, n, {kSlots, kRoom}, dtype, recurrence), storage_));
    }
  }

  Storage& storage() { return storage_; }

  // Logits after tokens [first, first + n).
  std::vector<double> extend(const std::vector<int32_t>& tokens, int32_t first, int64_t n) {
    std::vector<int32_t> positions(static_cast<size_t>(n));
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = first + int32_t(i);
    storage_.write(for_count(kTokens, n), tokens.data() + first, size_t(n) * sizeof(int32_t));
    storage_.write(for_count(kPositions, n), positions.data(), size_t(n) * sizeof(int32_t));
    const std::vector<int32_t> slots(static_cast<size_t>(n), 1);
    storage_.write(for_count(genesis::kSlots, n), slots.data(), size_t(n) * sizeof(int32_t));
    executables_.at(n).run(Phase::micro);
    std::vector<float> logits(size_t(n * vocabulary_));
    storage_.read(for_count(kLogits, n), logits.data(), logits.size() * sizeof(float));
    return {logits.begin(), logits.end()};
  }

 private:
  int64_t vocabulary_;
  std::unique_ptr<Device> device_ = make_cpu_device();
  Storage storage_{*device_};
  std::map<int64_t, Executable> executables_;
};

void check_generation(const Config::Model& m, DType dtype) {
  const int64_t T = 21, recurrence = trained_recurrence(m);
  TokenBatch batch = random_batch(m.vocab_size, 1, T, false, 6);
  Generator generator(m, dtype, recurrence, {8, 4, 1});
  // Another storage, and so another arena and other parameters, for the training graph.
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage(*device);
  Executable training(logits_graph(m, T, dtype, recurrence), storage);
  Expectation::Arrays weights;
  uint64_t stream = 0;
  for (const auto* array : storage.with_role(Role::parameter)) {
    const std::string& name = array->value.name;
    const Shape& s = array->value.shape;
    set_parameter(storage, name, random_weights(s.rows(), s[-1], 2, ++stream));
    const std::vector<float> values = get_parameter(storage, name);
    set_parameter(generator.storage(), name, values);
    weights[name] = {values.begin(), values.end()};
  }
  storage.write(kTokens, batch.tokens.data(), batch.tokens.size() * sizeof(int32_t));
  storage.write(kPositions, batch.positions.data(), batch.positions.size() * sizeof(int32_t));
  training.run(Phase::micro);
  std::vector<float> trained(size_t(T * m.vocab_size));
  storage.read(kLogits, trained.data(), trained.size() * sizeof(float));

  std::vector<double> generated;
  for (int32_t first = 0; first < T;) {  // 8, 4, and then one by one
    const int64_t n = first == 0 ? 8 : first == 8 ? 4 : 1;
    const std::vector<double> more = generator.extend(batch.tokens, first, n);
    generated.insert(generated.end(), more.begin(), more.end());
    first += int32_t(n);
  }
  const Expectation expected(m, recurrence, weights, batch, dtype);
  CHECK(expected.mismatch("logits", {trained.begin(), trained.end()}) == "");
  CHECK(expected.mismatch("logits", generated) == "");
  CHECK(expected.allowed("logits") < (dtype == DType::f32 ? 3e-5 : 0.1) * expected.length("logits"));

  // A cache an execution, and starting over needs no clearing.
  CHECK(generator.storage().with_role(Role::cache).size() == 2 * executions(m, recurrence).size());
  const std::vector<double> again = generator.extend(batch.tokens, 0, 8);
  CHECK(again == std::vector<double>(generated.begin(), generated.begin() + 8 * m.vocab_size));
}

}  // namespace

TEST_CASE("generation: prefill and single steps give the training graph's logits") {
  Config::Model interleaved = tiny_model();
  interleaved.rope_interleaved = true;
  interleaved.tie_embeddings = false;
  interleaved.kv_heads = 1;
  Config::Model normed = tiny_model(), normed_recurrent = tiny_recurrent_model();
  normed.qk_norm = normed_recurrent.qk_norm = true;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Config::Model& m :
         {tiny_model(), interleaved, tiny_recurrent_model(), normed, normed_recurrent}) {
      INFO(name_of(dtype) << (m.recurrence.core > 0 ? ", recurrent" : ", dense"));
      check_generation(m, dtype);
    }
  }
}
