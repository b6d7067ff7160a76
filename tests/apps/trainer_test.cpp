#include "apps/train/trainer.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::vector<json> metrics(const std::string& run_dir) {
  std::vector<json> records;
  std::istringstream lines(read_text_file(run_dir + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) records.push_back(json::parse(line));
  return records;
}

// What a step's record says of the training itself, without the machine's speed.
std::vector<std::string> losses(const std::string& run_dir) {
  std::vector<std::string> all;
  for (const json& r : metrics(run_dir)) {
    if (r["kind"] == "step")
      all.push_back(r["step"].dump() + " " + r["loss"].dump() + " " + r["grad_norm"].dump());
  }
  return all;
}

std::function<bool()> after(const std::unique_ptr<Trainer>& trainer, int64_t step) {
  return [&trainer, step] { return trainer->state().step == step; };
}

}  // namespace

TEST_CASE("a stop during validation is answered before its next batch, and saved") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--eval.every=3", "--checkpoint.every=0"});
  int asked = 0;
  auto trainer = tiny.trainer(config);
  // Not after step 3, but once its validation is under way.
  trainer->run([&] { return trainer->state().step == 3 && ++asked > 2; });
  CHECK(asked >= 3);
  CHECK(trainer->state().step == 3);
  for (const json& r : metrics(config.run_dir)) CHECK(r["kind"] == "step");
  trainer.reset();
  CHECK(tiny.trainer(config)->state().step == 3);
}

TEST_CASE("a run that is stopped and continued ends with the same bits") {
  TinyRun tiny;
  const std::string dtype = GENERATE("f32", "bf16");
  const std::string recompute = GENERATE("none", "block");
  const std::vector<std::string> how{"--device.dtype=" + dtype, "--train.recompute=" + recompute};

  const Config whole = tiny.config("whole", how);
  const auto straight = tiny.trainer(whole);
  straight->run();
  REQUIRE(straight->state().step == 20);
  // 40 samples in all: an epoch of each set ends on the way, and both sets are read.
  REQUIRE(straight->state().samples == 80);

  for (const int64_t stop : {1, 10, 19}) {
    const Config config = tiny.config("parts" + std::to_string(stop), how);
    {
      const auto first = tiny.trainer(config);
      first->run(after(first, stop));
      REQUIRE(first->state().step == stop);
    }
    const auto second = tiny.trainer(config);
    REQUIRE(second->state().step == stop);
    CHECK(tiny.output.str().find("going on from") != std::string::npos);
    second->run();
    CHECK(second->state().samples == 80);
    CHECK(state_bytes(second->storage()) == state_bytes(straight->storage()));
    CHECK(losses(config.run_dir) == losses(whole.run_dir));
  }
}

TEST_CASE("the same seed gives the same bits, another seed others") {
  TinyRun tiny;
  const auto run = [&](const std::string& name, const std::string& seed) {
    const auto trainer = tiny.trainer(tiny.config(name, {"--train.seed=" + seed}));
    trainer->run();
    return state_bytes(trainer->storage());
  };
  const std::string once = run("once", "7");
  CHECK(run("twice", "7") == once);
  CHECK(run("other", "8") != once);
}

TEST_CASE("training learns, and validation counts every token of the set once") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--eval.every=10", "--train.steps=60"});
  tiny.trainer(config)->run();
  std::vector<json> evals;
  for (const json& r : metrics(config.run_dir)) {
    if (r["kind"] == "eval") evals.push_back(r);
  }
  REQUIRE(evals.size() == 6);
  CHECK(evals.back()["loss"].get<double>() < evals.front()["loss"].get<double>());
  CHECK(evals.back()["loss"].get<double>() < std::log(double(kTinyV)) - 1);
  // 4 documents of 30 ids and an end each; 4 bytes an id.
  const double bits = evals.back()["loss"].get<double>() / std::numbers::ln2 * (4 * 31) / (4 * 30 * 4);
  CHECK(evals.back()["bits_per_byte"].get<double>() == Approx(bits).epsilon(1e-6));
}

TEST_CASE("a loss that is not finite changes nothing, and too many in a row end the run") {
  TinyRun tiny;
  const Config config =
      tiny.config("run", {"--model.init_std=1e30", "--train.max_bad_steps=3", "--device.dtype=f32"});
  const auto trainer = tiny.trainer(config);
  const std::string before = state_bytes(trainer->storage());
  const std::string message = message_of([&] { trainer->run(); });
  CHECK(message.find("train.max_bad_steps") != std::string::npos);
  CHECK(state_bytes(trainer->storage()) == before);
  CHECK(trainer->state().bad_steps == trainer->state().step);
  CHECK(trainer->state().optimizer_step == 0);
  for (const json& r : metrics(config.run_dir)) CHECK(r["skipped"] == true);
}

TEST_CASE("what is wrong with the data is said before anything is written") {
  TinyRun tiny;
  const auto refused = [&](const std::vector<std::string>& overrides) {
    const std::string message = message_of([&] { tiny.trainer(tiny.config("run", overrides)); });
    CHECK(!fs::exists(tiny.folder.file("run")));
    return message;
  };
  const std::string missing = tiny.folder.file("none");
  CHECK(refused({"--data.train=" + missing}).find(missing) != std::string::npos);
  CHECK(refused({"--data.validation=" + missing}).find(missing) != std::string::npos);
  CHECK(refused({"--data.tokenizer=" + missing}).find(missing) != std::string::npos);
  CHECK(refused({"--data.sequence_length=512"}).find("fewer than one sequence") != std::string::npos);
  CHECK(refused({"--train.batch_size=64"}).find("fewer than a global batch") != std::string::npos);
  const std::string vocabulary = refused({"--model.vocab_size=32"});
  CHECK(vocabulary.find(tiny.folder.file("a") + ".bin") != std::string::npos);
  CHECK(refused({"--device.kind=cuda"}).find("device.kind") != std::string::npos);
  CHECK(refused({"--train.memory_budget=1MiB", "--model.hidden_size=512"}).find("train.memory_budget") !=
        std::string::npos);
}

TEST_CASE("a folder that holds another run is refused, one that holds the same is continued") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--train.steps=2", "--schedule.warmup_steps=1"});
  tiny.trainer(config)->run();
  const std::string message = message_of([&] { tiny.trainer(tiny.config("run", {"--model.layers=3"})); });
  CHECK(message.find("model.layers") != std::string::npos);
  const auto longer = tiny.trainer(tiny.config("run", {"--train.steps=4", "--schedule.warmup_steps=1"}));
  CHECK(longer->state().step == 2);
  longer->run();
  CHECK(losses(config.run_dir).size() == 4);
}

TEST_CASE("a finished run that is started again changes nothing and says so") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--train.steps=3"});
  tiny.trainer(config)->run();
  const auto before = metrics(config.run_dir);
  const auto again = tiny.trainer(config);
  again->run();
  CHECK(again->state().step == 3);
  CHECK(tiny.output.str().find("nothing left to train") != std::string::npos);
  CHECK(metrics(config.run_dir).size() == before.size());
}

TEST_CASE("a recurrent model is validated at every number of steps that is asked for") {
  TinyRun tiny;
  const Config config =
      tiny.config("run", {"--model.layers=3", "--model.recurrence.prelude=1", "--model.recurrence.core=1",
                          "--model.recurrence.coda=1", "--model.recurrence.steps=2",
                          "--eval.recurrence=[1, 2, 3]", "--train.steps=4"});
  tiny.trainer(config)->run();
  std::vector<int64_t> recurrence;
  std::vector<double> loss;
  for (const json& r : metrics(config.run_dir)) {
    if (r["kind"] != "eval") continue;
    recurrence.push_back(r["recurrence"]);
    loss.push_back(r["loss"]);
  }
  REQUIRE(recurrence == std::vector<int64_t>{1, 2, 3});
  CHECK(loss[0] != loss[1]);
  CHECK(loss[1] != loss[2]);
}

TEST_CASE("a run that is told to stop validates no more, and stops after a validation it was in") {
  TinyRun tiny;
  const auto validated = [&](const std::string& run) {
    std::vector<int64_t> steps;
    for (const json& r : metrics(tiny.folder.file(run))) {
      if (r["kind"] == "eval") steps.push_back(r["step"]);
    }
    return steps;
  };
  const auto before = tiny.trainer(tiny.config("before", {"--eval.every=1"}));
  before->run(after(before, 3));
  CHECK(before->state().step == 3);
  CHECK(validated("before") == std::vector<int64_t>{1, 2});

  const auto during = tiny.trainer(tiny.config("during", {"--eval.every=1"}));
  during->run([&] { return !validated("during").empty(); });
  CHECK(during->state().step == 1);
  CHECK(validated("during") == std::vector<int64_t>{1});
}
