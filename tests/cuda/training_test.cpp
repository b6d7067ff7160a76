// Whole training steps on the CUDA device, which is the engine's own on the stand-ins of CUDA's libraries.
#include <cmath>
#include <set>

#include "engine/passes/plan_memory.h"
#include "engine/passes/print.h"
#include "model/executions.h"
#include "tests/cuda_standin/standin.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/trainee.h"

using namespace genesis;
using standin::Mistake;
using standin::When;

namespace {

using Bits = std::map<std::string, std::vector<char>>;

Config::Model model_of(bool recurrent) { return recurrent ? tiny_recurrent_model() : tiny_model(); }

constexpr int64_t kB = 2, kT = 9;

TraineeOptions on_cuda(TraineeOptions options = {}) {
  options.device = make_cuda_device;
  return options;
}

Trainee trainee_of(const Config::Model& m, const TraineeOptions& options) {
  return Trainee(m, {kB, kT, true}, trained_recurrence(m), options);
}

// The mean loss of each of some steps of two micro-batches.
std::vector<double> losses(Trainee& trainee, const Config::Model& m, int steps, int micro_steps = 2) {
  trainee.set_random_weights(4);
  std::vector<double> found;
  for (int step = 1; step <= steps; ++step) {
    std::vector<TokenBatch> batches;
    for (int i = 0; i < micro_steps; ++i) {
      batches.push_back(random_batch(m.vocab_size, kB, kT, true, uint64_t(step * 100 + i)));
    }
    trainee.step(batches, 1e-2f, step);
    found.push_back(trainee.loss() / trainee.count());
  }
  return found;
}

Bits all_bits(Trainee& trainee) {
  return trainee.bits({Role::parameter, Role::master, Role::moment, Role::gradient, Role::result});
}

// Of a step on a device in that state.
Bits trained(const Config::Model& m, const TraineeOptions& options, const standin::Options& standin) {
  standin::reset(standin);
  Trainee trainee = trainee_of(m, on_cuda(options));
  losses(trainee, m, 1);
  return all_bits(trainee);
}

}  // namespace

TEST_CASE("CUDA training: losses are the CPU's, to rounding") {
  for (const bool recurrent : {false, true}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO((recurrent ? "recurrent, " : "dense, ") << name_of(dtype));
      const Config::Model m = model_of(recurrent);
      Trainee cpu = trainee_of(m, {.dtype = dtype});
      const auto expected = losses(cpu, m, 4);
      standin::reset();
      Trainee cuda = trainee_of(m, on_cuda({.dtype = dtype}));
      const auto found = losses(cuda, m, 4);
      // The loss of a model this small moves by 1e-7 with an fp32 rounding, and by 1e-3 with one of bf16.
      const double allowed = dtype == DType::f32 ? 1e-5 : 2e-2;
      for (size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(found[i] - expected[i]) < allowed);
      CHECK(std::abs(expected[0] - expected[3]) > 2 * allowed);  // something is trained
      CHECK(standin::fault() == "");
    }
  }
}

TEST_CASE("CUDA training: any order that streams and events allow gives the same bits") {
  const Config::Model m = model_of(true);
  const Bits expected = trained(m, {.dtype = DType::bf16}, {.seed = 1});
  for (uint64_t seed = 2; seed <= 10; ++seed) {
    const When when = seed % 3 == 0 ? When::late : seed % 3 == 1 ? When::at_once : When::mixed;
    CHECK(trained(m, {.dtype = DType::bf16}, {.seed = seed, .when = when}) == expected);
  }
}

TEST_CASE("CUDA training: recompute changes the plan and not a bit of the result") {
  const Config::Model m = model_of(true);
  std::set<size_t> arenas;
  std::vector<Bits> all;
  const auto run = [&](Config::Recompute policy, size_t budget) {
    standin::reset();
    Trainee trainee = trainee_of(m, on_cuda({.dtype = DType::bf16, .recompute = policy, .budget = budget}));
    losses(trainee, m, 2);
    all.push_back(all_bits(trainee));
    arenas.insert(trainee.executable().memory().bytes);
    return trainee.executable().memory().bytes;
  };
  const size_t most = run(Config::Recompute::none, 0), least = run(Config::Recompute::block, 0);
  run(Config::Recompute::automatic, (most + least) / 2);
  CHECK(arenas.size() == 3);
  CHECK(all[0] == all[1]);
  CHECK(all[0] == all[2]);
}

TEST_CASE("CUDA training: what to recompute is chosen by a GPU's rates, not by the CPU's") {
  standin::reset();
  Config config;
  config.model = model_of(false);
  config.data.sequence_length = kT;
  config.train.micro_batch = config.train.batch_size = kB;
  const auto planned = [&](Target target, Config::Recompute recompute, size_t arena) {
    config.train.recompute = Config::Recompute::none;
    target.memory = persistent_bytes(build_training_graph(config, target).graph) + arena;
    config.train.recompute = recompute;
    return build_training_graph(config, target).graph;
  };
  const Target here = target_on(config, *make_cuda_device());
  CHECK(here.device == DeviceKind::cuda);
  CHECK(here.dtype == DType::bf16);
  Target by_cpu = here;
  by_cpu.rates = &kCpuRates;
  const auto arena = [&](Config::Recompute recompute) {
    return plan_memory(planned(here, recompute, 0), DeviceKind::cuda).bytes;
  };
  const size_t most = arena(Config::Recompute::none), least = arena(Config::Recompute::block);
  int differ = 0;
  for (size_t i = 0; i <= 10; ++i) {
    const auto text = [&](const Target& target) {
      return to_string(planned(target, Config::Recompute::automatic, least + (most - least) * i / 10));
    };
    CHECK(text(here) == text(target_on(config, cards()[0])));
    differ += text(here) != text(by_cpu);
  }
  CHECK(differ > 0);
}

TEST_CASE("CUDA training: the device gives what the plan says, to the byte, and nothing during a step") {
  for (const bool recurrent : {false, true}) {
    standin::reset();
    const Config::Model m = model_of(recurrent);
    Trainee trainee = trainee_of(m, on_cuda({.dtype = DType::bf16}));
    const size_t planned =
        persistent_bytes(trainee.executable().graph()) + trainee.executable().memory().bytes;
    const int64_t allocations = standin::seen().allocations;
    losses(trainee, m, 2);
    CHECK(standin::seen().most_held == planned);
    CHECK(standin::seen().allocations == allocations);
  }
}

TEST_CASE("CUDA training: micro-steps wait for nothing but the copies that read the ring's slots") {
  standin::reset({.when = When::late});
  const Config::Model m = model_of(false);
  Trainee trainee = trainee_of(m, on_cuda());
  losses(trainee, m, 1);
  const auto batch = random_batch(m.vocab_size, kB, kT, true, 1);
  const int64_t launches = standin::seen().launches;
  trainee.begin();
  for (int i = 0; i < 3; ++i) trainee.micro(batch);
  CHECK(standin::seen().launches == launches);  // all of it is still to be run
  trainee.loss();
  CHECK(standin::seen().launches > launches + 3 * int64_t(trainee.executable().graph().nodes.size()) / 2);
}

// The copies of what came of it are queued, and waited for by who asks: a forgotten wait finds none there yet.
TEST_CASE("CUDA training: an update waits for nothing, and its result for the update alone") {
  const Config::Model m = model_of(false);
  const auto batch = random_batch(m.vocab_size, kB, kT, true, 1);
  const auto result = [&](const standin::Options& options, bool next_step) {
    standin::reset(options);
    Trainee trainee = trainee_of(m, on_cuda());
    trainee.set_random_weights(4);
    trainee.begin();
    trainee.micro(batch);
    const int64_t launches = standin::seen().launches;
    trainee.training_step().update(1e-2, 1);
    if (options.when == When::late) CHECK(standin::seen().launches == launches);
    if (next_step) {
      trainee.begin();
      trainee.micro(batch);
    }
    const StepResult r = trainee.training_step().result();
    if (options.when == When::late && options.mistake == Mistake::none) {
      CHECK(standin::seen().launches > launches);
    }
    return std::tuple(r.loss, r.grad_norm, r.applied);
  };
  const auto expected = result({.when = When::at_once}, false);
  CHECK(std::get<0>(expected) > 1);
  CHECK(std::get<2>(expected));
  for (const bool next_step : {false, true}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      for (const When when : {When::late, When::mixed}) {
        CHECK(result({.seed = seed, .when = when}, next_step) == expected);
      }
    }
    for (const Mistake mistake : {Mistake::no_event_wait, Mistake::no_event_record}) {
      CHECK(result({.when = When::late, .mistake = mistake}, next_step) != expected);
    }
  }
}

// Each run differs from a sound one, or fails.
TEST_CASE("CUDA training: a planted mistake is caught") {
  Config::Model m = model_of(false);
  m.layers = 1;
  constexpr int kMicroSteps = 24;  // more copies than the ring has slots
  const auto run = [&](Mistake mistake, DType dtype) {
    standin::reset({.when = When::late, .mistake = mistake});
    Trainee trainee = trainee_of(m, on_cuda({.dtype = dtype}));
    return losses(trainee, m, 1, kMicroSteps);
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto expected = run(Mistake::none, dtype);
    const auto caught = [&](Mistake mistake) {
      try {
        return run(mistake, dtype) != expected;
      } catch (const Error&) {
        return standin::fault() != "";
      }
    };
    CHECK_FALSE(caught(Mistake::none));
    CHECK(caught(Mistake::wrong_ld));
    if (dtype == DType::bf16) continue;
    CHECK(caught(Mistake::no_stream_wait));
    CHECK(caught(Mistake::no_event_wait));
    CHECK(caught(Mistake::no_event_record));
  }
}

TEST_CASE("CUDA training: a use after free is an error that says what was under way") {
  standin::reset({.when = When::late});
  const Config::Model m = model_of(false);
  Trainee trainee = trainee_of(m, on_cuda());
  losses(trainee, m, 1);
  trainee.storage().device().release(trainee.storage().arena());
  const std::string message = message_of([&] { losses(trainee, m, 1); });
  CHECK(lacks(message, "stand-in failed in what was queued since the host last waited for it (") == "");
  CHECK(lacks(message, "micro") == "");
  CHECK(lacks(message, "an illegal memory access was encountered") == "");
}
