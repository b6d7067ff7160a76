// When a run saves, and how it lives with a disk that does not take it.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "apps/train/trainer.h"
#include "io/checkpoint.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

std::string steps_in(const std::string& run) {
  std::set<int64_t> steps;
  for (const auto& e : fs::directory_iterator(run + "/checkpoints")) {
    steps.insert(std::stoll(e.path().filename().string().substr(5)));
  }
  std::string text;
  for (const int64_t step : steps) text += std::to_string(step) + " ";
  return text;
}

// The folder of a run's checkpoints, which can be taken from it and given back.
struct Checkpoints {
  explicit Checkpoints(const Config& config)
      : place(config.run_dir + "/checkpoints"), aside(config.run_dir + "/aside") {}
  void take() const {
    fs::rename(place, aside);
    replace_text_file(place, "in the way");
  }
  void give_back() const {
    fs::remove(place);
    fs::rename(aside, place);
  }
  std::string place, aside;
};

}  // namespace

TEST_CASE("a save that fails is told of and tried again, training goes on, and loses nothing by it") {
  TinyRun tiny;
  const std::vector<std::string> how{"--train.steps=12", "--checkpoint.every=2", "--checkpoint.keep=0"};
  const auto whole = tiny.trainer(tiny.config("whole", how));
  whole->run();
  const Config config = tiny.config("run", how);
  const Checkpoints checkpoints(config);
  const auto trainer = tiny.trainer(config);
  trainer->run([&] {
    if (trainer->state().step == 3) checkpoints.take();
    if (trainer->state().step == 7) checkpoints.give_back();
    return false;
  });
  for (const std::string step : {"4", "6"}) {
    CHECK(lacks(tiny.output.str(), "WARNING: step " + step + " could not be saved, and training goes on: ") ==
          "");
  }
  CHECK(lacks(tiny.output.str(), "Not a directory; step 2 is the last that is saved") == "");
  CHECK(steps_in(config.run_dir) == "2 8 10 12 ");
  CHECK(state_bytes(trainer->storage()) == state_bytes(whole->storage()));
}

TEST_CASE("checkpoint.failures saves in a row that fail end the run, and one at its end does") {
  TinyRun tiny;
  const auto config = [&](const std::string& every) {
    return tiny.config("run", {"--train.steps=12", "--checkpoint.every=" + every, "--checkpoint.failures=2"});
  };
  {
    const Checkpoints checkpoints(config("2"));
    const auto trainer = tiny.trainer(config("2"));
    const std::string message = message_of([&] {
      trainer->run([&] {
        if (trainer->state().step == 3) checkpoints.take();
        return false;
      });
    });
    CHECK(trainer->state().step == 6);
    CHECK(lacks(message, "step 6 could not be saved: ") == "");
    CHECK(lacks(message,
                "This was save 2 in a row to fail, which is checkpoint.failures; step 2 is the last") == "");
    checkpoints.give_back();
    CHECK(steps_in(config("2").run_dir) == "2 ");
  }
  for (const bool at_end : {true, false}) {  // or where it is stopped
    const Checkpoints checkpoints(config("0"));
    const auto trainer = tiny.trainer(config("0"));
    const int64_t begin = trainer->state().step;
    const std::string message = message_of([&] {
      trainer->run([&] {
        if (trainer->state().step == begin + 1) checkpoints.take();
        return !at_end && trainer->state().step == begin + 2;
      });
    });
    CHECK(lacks(message, "Not a directory") == "");
    checkpoints.give_back();
    CHECK(steps_in(config("0").run_dir) == "2 ");
  }
}

TEST_CASE(
    "a run saves after checkpoint.minutes without a checkpoint, and keeps those of checkpoint.keep_every") {
  TinyRun tiny;
  const Config config =
      tiny.config("run", {"--train.steps=17", "--checkpoint.every=6", "--checkpoint.minutes=2",
                          "--checkpoint.keep=2", "--checkpoint.keep_every=4"});
  const auto trainer = tiny.trainer(config);
  std::string seen;
  trainer->run([&] {
    tiny.seconds += 39;
    const int64_t step = trainer->state().step;
    if (step == 9) seen = steps_in(config.run_dir);
    return false;
  });
  // 156 s after the beginning; then where it is due; 156 s after that again.
  CHECK(seen == "3 6 ");
  CHECK(lacks(tiny.output.str(), "WARNING") != "");
  CHECK(steps_in(config.run_dir) == "12 16 17 ");
}

TEST_CASE("checkpoint.keep_best keeps the checkpoint of the lowest validation loss, on resume too") {
  TinyRun tiny;
  const auto config = [&](const std::string& steps) {
    return tiny.config("run",
                       {"--train.steps=" + steps, "--checkpoint.every=2", "--checkpoint.keep=1",
                        "--checkpoint.keep_best=true", "--eval.every=2", "--schedule.on_resume=extend"});
  };
  const std::string metrics = config("8").run_dir + "/metrics.jsonl";
  // The losses are made up: whatever a step was validated to, here it is another.
  const auto validate_as = [&](int64_t step, const nlohmann::ordered_json& loss) {
    std::string changed;
    int found = 0;
    std::istringstream lines(read_text_file(metrics));
    for (std::string line; std::getline(lines, line);) {
      auto record = nlohmann::ordered_json::parse(line);
      if (record["kind"] == "eval" && record["step"] == step) {
        record["loss"] = loss;
        ++found;
      }
      changed += record.dump() + "\n";
    }
    REQUIRE(found == 1);
    replace_text_file(metrics, changed);
  };
  const auto go_on = [&](const std::string& steps) { tiny.trainer(config(steps))->run(); };
  go_on("4");
  validate_as(4, 0.5);
  go_on("8");
  CHECK(steps_in(config("8").run_dir) == "4 8 ");
  validate_as(6, 0.1);  // which has no checkpoint any more
  validate_as(8, nullptr);
  go_on("10");
  CHECK(steps_in(config("8").run_dir) == "4 10 ");
  validate_as(10, 0.25);
  go_on("14");
  CHECK(steps_in(config("8").run_dir) == "10 14 ");

  const std::string refused = message_of([&] {
    tiny.config("run", {"--checkpoint.keep_best=true", "--eval.every=0"});
  });
  CHECK(lacks(refused, "it needs eval.every and log.metrics") == "");
}

TEST_CASE("checkpoints that are written while training goes on hold the step that they are of, to the bit") {
  TinyRun tiny;
  for (const std::string dtype : {"f32", "bf16"}) {
    const auto config = [&](const std::string& run, const std::string& async) {
      return tiny.config(run + dtype, {"--train.steps=9", "--checkpoint.every=1", "--checkpoint.keep=0",
                                       "--device.dtype=" + dtype, "--checkpoint.async=" + async});
    };
    const Config one = config("one", "false"), other = config("other", "true");
    tiny.trainer(one)->run();
    {
      const auto trainer = tiny.trainer(other);
      trainer->run([&] { return trainer->state().step == 5; });
    }
    tiny.trainer(other)->run();
    CHECK(lacks(tiny.output.str(), "(step 5)") == "");
    for (int step = 1; step <= 9; ++step) {
      for (const std::string file : {"model-00001-of-00001.safetensors", "state-rank-0-of-1.safetensors"}) {
        const std::string path = fmt::format("/checkpoints/step_{:08}/{}", step, file);
        CHECK(read_text_file(one.run_dir + path) == read_text_file(other.run_dir + path));
      }
    }
  }
}

TEST_CASE("a save in the background that fails is told of by the step after, and counts") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--train.steps=12", "--checkpoint.every=2",
                                            "--checkpoint.async=true", "--checkpoint.failures=2"});
  replace_text_file((fs::create_directory(config.run_dir), config.run_dir + "/note"), "");
  const auto trainer = tiny.trainer(config);
  const std::string message = message_of([&] {
    trainer->run([&] {
      if (trainer->state().step == 1) replace_text_file(config.run_dir + "/checkpoints", "in the way");
      return false;
    });
  });
  CHECK(lacks(tiny.output.str(), "WARNING: step 2 could not be saved, and training goes on: ") == "");
  CHECK(lacks(message, "step 4 could not be saved: ") == "");
  CHECK(lacks(message, "checkpoint.failures; nothing is saved yet") == "");
}
