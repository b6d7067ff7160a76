// Runs on the CUDA device as their user meets them, beside the same on the CPU: genesis_train built against the
// stand-ins of CUDA's libraries, and what the programs are made of.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/generate/cached_model.h"
#include "apps/train/checkpoints.h"
#include "tests/apps/shell.h"
#include "tests/apps/tiny_run.h"
#include "tests/cuda_standin/standin.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;
using nlohmann::json;

namespace {

const std::vector<std::string> kRecurrent = {"--model.layers=3", "--model.recurrence.prelude=1",
                                             "--model.recurrence.core=1", "--model.recurrence.coda=1",
                                             "--model.recurrence.steps=2"};

std::vector<double> numbers(const std::string& run_dir, const char* kind) {
  std::vector<double> losses;
  std::istringstream lines(read_text_file(run_dir + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line);
    if (record["kind"] == kind) losses.push_back(record["loss"]);
  }
  return losses;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

std::vector<std::string> with(std::vector<std::string> options, const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

// In bf16 each device is off the fp32 run by roundings of its own, and 20 steps of AdamW make the most of them: so CUDA
// may be off by three times as much as the CPU is.
TEST_CASE("genesis_train on cuda takes 20 steps to the CPU's losses, dense and recurrent") {
  TinyRun tiny;
  const Shell shell("on_standin/genesis_train");
  const auto train = [&](const std::string& kind, const std::string& dtype, bool recurrent) {
    const Config config = tiny.config(
        kind + dtype + (recurrent ? "recurrent" : ""),
        with({"--device.kind=" + kind, "--device.dtype=" + dtype, "--eval.every=10", "--optim.lr=5e-3"},
             recurrent ? kRecurrent : std::vector<std::string>{}));
    shell.folder.put("c.yaml", print_config(config));
    const Outcome run = shell.run("c.yaml");
    INFO(run.out << run.err);
    REQUIRE(run.code == 0);
    CHECK((lacks(run.out, dtype + " on stand-in") == "") == (kind == "cuda"));
    std::vector<double> losses = numbers(config.run_dir, "step");
    const std::vector<double> validations = numbers(config.run_dir, "eval");
    REQUIRE(losses.size() == 20);
    REQUIRE(validations.size() == 2);
    CHECK(losses.front() - losses.back() > 0.3);
    losses.insert(losses.end(), validations.begin(), validations.end());
    return losses;
  };
  CHECK(largest_difference(train("cuda", "f32", false), train("cpu", "f32", false)) < 1e-3);
  const auto exact = train("cpu", "f32", true);
  const double rounding = largest_difference(train("cpu", "bf16", true), exact);
  CHECK(rounding < 0.1);
  CHECK(largest_difference(train("cuda", "bf16", true), exact) < 3 * rounding);
}

TEST_CASE("CUDA runs: a checkpoint moves between devices, and a run goes on to the same bits on its own") {
  TinyRun tiny;
  const auto options = [](const char* kind, int steps) {
    return std::vector<std::string>{"--device.dtype=bf16", std::string("--device.kind=") + kind,
                                    "--train.steps=" + std::to_string(steps), "--schedule.on_resume=extend"};
  };
  const auto train = [&](const char* run, const char* kind, int steps) {
    standin::reset({.seed = uint64_t(steps)});
    const auto trainer = tiny.trainer(tiny.config(run, options(kind, steps)));
    trainer->run();
    CHECK(trainer->state().step == steps);
    return state_bytes(trainer->storage());
  };
  const auto stop_at = [&](const char* run, const char* kind, int64_t stop) {
    standin::reset();
    const auto trainer = tiny.trainer(tiny.config(run, options(kind, 6)));
    trainer->run([&] { return trainer->state().step == stop; });
    return state_bytes(trainer->storage());
  };
  const std::string straight = train("straight", "cuda", 6);
  const std::string at_three = stop_at("parts", "cuda", 3);
  CHECK(at_three != straight);
  // What the CPU loads is what CUDA saved.
  {
    const auto on_cpu = tiny.trainer(tiny.config("parts", options("cpu", 6)));
    CHECK(on_cpu->state().step == 3);
    CHECK(state_bytes(on_cpu->storage()) == at_three);
  }
  CHECK(train("parts", "cuda", 6) == straight);

  stop_at("moved", "cpu", 3);
  train("moved", "cuda", 6);
  const double apart = largest_difference(numbers(tiny.folder.file("moved"), "step"),
                                          numbers(tiny.folder.file("straight"), "step"));
  CHECK(apart > 0);
  CHECK(apart < 0.05);
}

TEST_CASE("CUDA runs: graphs and recomputation change no bit of a run") {
  TinyRun tiny;
  const auto train = [&](const char* run, const std::vector<std::string>& options) {
    standin::reset();
    const auto trainer = tiny.trainer(
        tiny.config(run, with({"--device.kind=cuda", "--device.dtype=bf16", "--train.steps=3"}, options)));
    trainer->run();
    CHECK(standin::fault() == "");
    return state_bytes(trainer->storage());
  };
  const std::string expected = train("none", {"--train.recompute=none"});
  CHECK(train("block", {"--train.recompute=block"}) == expected);
  CHECK(train("graphless", {"--device.graphs=false"}) == expected);
  CHECK(standin::seen().graph_launches == 0);
}

TEST_CASE("CUDA runs: a model answers with the CPU's logits") {
  TinyRun tiny;
  const Config trained = tiny.config("run", with({"--device.kind=cpu", "--train.steps=5"}, kRecurrent));
  tiny.trainer(trained)->run();
  const std::string checkpoint = *latest_checkpoint(trained.run_dir, [](const std::string&) {});
  std::vector<float> logits[2];
  for (const char* kind : {"cpu", "cuda"}) {
    standin::reset();
    Config config = trained;
    config.device.kind = kind == std::string("cuda") ? Config::DeviceKind::cuda : Config::DeviceKind::cpu;
    config.device.dtype = Config::Precision::f32;
    CachedModel model(config, checkpoint, {.slots = 1, .T_max = 32}, 2, CachedModel::Rows::fewest);
    for (int32_t at = 0; at < 20; at += 5) {  // four calls of five tokens
      std::vector<SequenceToken> tokens;
      for (int32_t i = at; i < at + 5; ++i) tokens.push_back({i * 7 % 64, 0, i});
      const auto rows = model.run(tokens);
      auto& all = logits[kind == std::string("cuda")];
      all.insert(all.end(), rows.begin(), rows.end());
    }
  }
  REQUIRE(logits[0].size() == 20 * kTinyV);
  double apart = 0;
  for (size_t i = 0; i < logits[0].size(); ++i)
    apart = std::max(apart, std::abs(double(logits[0][i] - logits[1][i])));
  CHECK(apart > 0);
  CHECK(apart < 1e-4);
}

TEST_CASE("CUDA runs: more than the device has is refused, by how much") {
  TinyRun tiny;
  standin::reset({.memory = 100000});
  const std::string message = message_of([&] { tiny.trainer(tiny.config("run", {"--device.kind=cuda"})); });
  CHECK(lacks(message, "raise train.memory_budget") == "");
}
