// A step's parts recorded as CUDA graphs, on the stand-ins.
#include "engine/runtime/executable.h"
#include "model/executions.h"
#include "tests/cuda_standin/standin.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/trainee.h"

using namespace genesis;
using standin::When;

namespace {

std::unique_ptr<Device> without_graphs() { return make_cuda_device({.graphs = false}); }

using Bits = std::map<std::string, std::vector<char>>;

Bits trained(std::unique_ptr<Device> (*device)(), const standin::Options& options, DType dtype) {
  standin::reset(options);
  const Config::Model m = tiny_recurrent_model();
  Trainee trainee(m, {2, 9, true}, trained_recurrence(m), {.dtype = dtype, .device = device});
  trainee.set_random_weights(4);
  for (int step = 1; step <= 3; ++step) {
    std::vector<TokenBatch> batches;
    for (int i = 0; i < 2; ++i)
      batches.push_back(random_batch(m.vocab_size, 2, 9, true, uint64_t(step * 10 + i)));
    trainee.step(batches, 1e-2f, step);
  }
  return trainee.bits({Role::parameter, Role::master, Role::moment, Role::gradient, Role::result});
}

}  // namespace

TEST_CASE("CUDA graphs: a step that is recorded gives the bits of one that is not") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Bits expected = trained(without_graphs, {}, dtype);
    CHECK(standin::seen().graph_launches == 0);
    for (const When when : {When::late, When::mixed}) {
      CHECK(trained(make_cuda_device, {.seed = 3, .when = when}, dtype) == expected);
      // Of three steps of two micro-steps, all but the first of each phase.
      CHECK(standin::seen().graph_launches == 2 + 5 + 2);
    }
  }
}

TEST_CASE("CUDA graphs: a call that capture forbids is refused, and the message names the node") {
  const standin::Options options{.mistake = standin::Mistake::allocating_product};
  CHECK(message_of([&] { trained(without_graphs, options, DType::f32); }) == "");
  const std::string message = message_of([&] { trained(make_cuda_device, options, DType::f32); });
  CHECK(lacks(message, "cublasLtMatmul of C[") == "");
  CHECK(lacks(message, "; at the node micro  matmul(layers.0.attn_norm, layers.0.attn.qkv.weight) -> ") ==
        "");
}

TEST_CASE("CUDA graphs: a graph is recorded anew when the arena has moved") {
  standin::reset();
  const std::unique_ptr<Device> device = make_cuda_device();
  Storage storage(*device);
  const Config::Model m = tiny_model();
  Executable small(build_loss_graph(m, {1, 9, false}, DType::f32, 1), storage);
  const auto losses = [&] {
    const LossSum zero;
    storage.write(kLossAndCount, &zero, sizeof zero);
    small.run(Phase::micro);
    LossSum sum;
    storage.read(kLossAndCount, &sum, sizeof sum);
    return std::pair(sum.loss, sum.count);
  };
  const auto batch = random_batch(m.vocab_size, 1, 9, false, 1);
  for (const auto& [name, ids] :
       {std::pair{kTokens, &batch.tokens}, {kTargets, &batch.targets}, {kPositions, &batch.positions}}) {
    storage.write(name, ids->data(), ids->size() * sizeof(int32_t));
  }
  const auto expected = losses();
  for (int i = 0; i < 2; ++i) CHECK(losses() == expected);
  CHECK(standin::seen().graph_launches == 2);
  void* before = storage.arena();
  storage.reserve_arena(2 * storage.arena_bytes());
  REQUIRE(storage.arena() != before);
  for (int i = 0; i < 3; ++i) CHECK(losses() == expected);
  CHECK(standin::seen().graph_launches == 4);
  CHECK(standin::fault() == "");
}
