#include "apps/train/trainer.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <system_error>

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

// A limit of this process on the size of files, as `ulimit -f` sets it, for as long as this lives.
class FileSizeLimit {
 public:
  FileSizeLimit() : before_signal_(std::signal(SIGXFSZ, SIG_IGN)) { getrlimit(RLIMIT_FSIZE, &before_); }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_signal_);
  }
  void set(rlim_t bytes) const {
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }

 private:
  rlimit before_{};
  void (*before_signal_)(int);
};

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
  const std::string optimizer = GENERATE("adamw", "muon");
  const std::vector<std::string> how{"--device.dtype=" + dtype, "--train.recompute=" + recompute,
                                     "--optim.kind=" + optimizer};

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

TEST_CASE("a folder that holds another run is refused, one that holds the same is continued") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--train.steps=2", "--schedule.warmup_steps=1"});
  tiny.trainer(config)->run();
  const std::string message = message_of([&] { tiny.trainer(tiny.config("run", {"--model.layers=3"})); });
  CHECK(message.find("model.layers") != std::string::npos);
  const auto longer = tiny.trainer(
      tiny.config("run", {"--train.steps=4", "--schedule.warmup_steps=1", "--schedule.on_resume=extend"}));
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

TEST_CASE("what a run reports does not depend on where it was stopped: a validation left out is made up") {
  TinyRun tiny;
  const std::vector<std::string> how{"--train.steps=4",           "--eval.every=2",
                                     "--eval.batches=2",          "--checkpoint.every=3",
                                     "--model.layers=3",          "--model.recurrence.prelude=1",
                                     "--model.recurrence.core=1", "--model.recurrence.coda=1",
                                     "--eval.recurrence=[1, 2]"};
  // Without what differs from machine to machine.
  const auto reported = [](const std::string& run_dir) {
    std::vector<json> records = metrics(run_dir);
    for (json& r : records) {
      r.erase("tokens_per_second");
      r.erase("mfu");
      r.erase("memory_bytes");
    }
    return records;
  };
  const Config whole = tiny.config("whole", how);
  int64_t questions = 0;  // one before each batch of validation, and one after each step and validation
  tiny.trainer(whole)->run([&] { return ++questions, false; });
  const auto expected = reported(whole.run_dir);
  REQUIRE(expected.size() == 4 + 2 * 2);
  REQUIRE(questions == 1 + 4 + 2 * (2 * 2 + 1));

  for (int64_t stop_at = 1; stop_at <= questions; ++stop_at) {
    INFO("stopped at question " << stop_at);
    const Config config = tiny.config("stop" + std::to_string(stop_at), how);
    int64_t asked = 0;
    TrainState reached;
    {
      const auto first = tiny.trainer(config);
      first->run([&] { return ++asked >= stop_at; });
      reached = first->state();
    }
    const auto second = tiny.trainer(config);
    CHECK(second->state() == reached);  // all that was trained is saved
    second->run();
    CHECK(reported(config.run_dir) == expected);
    fs::remove_all(config.run_dir);
  }
}

TEST_CASE("a step is saved before it is validated, the last one too") {
  TinyRun tiny;
  const Config config = tiny.config(
      "run", {"--train.steps=6", "--eval.every=2", "--checkpoint.every=2", "--checkpoint.keep=0"});
  const auto trainer = tiny.trainer(config);
  const auto saved = [&] {
    std::set<std::string> names;
    std::error_code none_yet;
    for (const auto& entry : fs::directory_iterator(config.run_dir + "/checkpoints", none_yet)) {
      names.insert(entry.path().filename());
    }
    return names;
  };
  // Asked before the first batch of a validation: as if the process was killed there.
  std::map<int64_t, std::set<std::string>> at;
  trainer->run([&] {
    at[trainer->state().step] = saved();
    return false;
  });
  CHECK(at[2] == std::set<std::string>{"step_00000002"});
  CHECK(at[4] == std::set<std::string>{"step_00000002", "step_00000004"});
  CHECK(at[6] == std::set<std::string>{"step_00000002", "step_00000004", "step_00000006"});
}

TEST_CASE("a finished run is validated once, whatever it is started again with") {
  TinyRun tiny;
  const std::vector<std::string> how{"--train.steps=3", "--data.validation=[]"};
  const auto evals = [&] {
    std::vector<int64_t> steps;
    for (const json& r : metrics(tiny.folder.file("run"))) {
      if (r["kind"] == "eval") steps.push_back(r["step"]);
    }
    return steps;
  };
  tiny.trainer(tiny.config("run", how))->run();
  CHECK(evals().empty());
  for (int i = 0; i < 2; ++i) {  // with validation data it did not have before
    tiny.trainer(tiny.config("run", {"--train.steps=3"}))->run();
    CHECK(evals() == std::vector<int64_t>{3});
  }
}

TEST_CASE("where a log cannot be written the step is saved, and the error says both") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--checkpoint.every=0", "--log.tensorboard=false"});
  const std::string path = config.run_dir + "/metrics.jsonl";
  // A checkpoint's files are smaller than this one, so that a limit can stop it alone.
  fs::create_directory(config.run_dir);
  tiny.folder.put("run/metrics.jsonl", R"({"step":0,"note":")" + std::string(1'000'000, 'x') + "\"}\n");
  const auto run_to_limit = [&](int64_t steps, rlim_t (*limit)(rlim_t metrics_size)) {
    auto trainer = tiny.trainer(config);
    const FileSizeLimit file_size;
    const std::string message = message_of([&] {
      trainer->run([&] {
        if (trainer->state().step % 10 == steps) file_size.set(limit(fs::file_size(path)));
        return false;
      });
    });
    INFO(message);
    CHECK(message.find(path + ": cannot write: File too large; ") == 0);
    return std::pair(message, trainer->state());
  };
  const auto [message, state] = run_to_limit(3, [](rlim_t size) { return size + 10; });
  CHECK(state.step == 4);
  CHECK(message.find("; step 4 is saved, and the same command goes on from there") != std::string::npos);
  CHECK(tiny.trainer(config)->state() == state);

  const auto [both, lost] = run_to_limit(6, [](rlim_t) { return rlim_t{100}; });
  CHECK(lost.step == 7);
  CHECK(both.find("; and step 7 could not be saved either: ") != std::string::npos);
  CHECK(std::count(both.begin(), both.end(), '\n') == 0);
  // What was saved before is there, and the run goes on.
  const auto again = tiny.trainer(config);
  CHECK(again->state() == state);
  again->run();
  CHECK(again->state().step == 20);
}

TEST_CASE("where the console cannot be written the step is saved, too") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--checkpoint.every=0", "--eval.every=5"});
  for (const int64_t step : {1, 5, 19, 20}) {
    fs::remove_all(config.run_dir);
    auto trainer = tiny.trainer(config);
    const std::string message = message_of([&] {
      trainer->run([&] {
        if (trainer->state().step == step) tiny.output.setstate(std::ios::badbit);
        return false;
      });
    });
    tiny.output.clear();
    INFO(message);
    CHECK(message.find("the console (standard output) cannot be written") == 0);
    CHECK(message.find("is saved, and the same command goes on from there") != std::string::npos);
    const TrainState reached = trainer->state();
    trainer.reset();
    CHECK(tiny.trainer(config)->state() == reached);
  }
}

TEST_CASE("what the standard library throws in a run is told in words, and the step saved") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--checkpoint.every=0", "--eval.every=5", "--train.steps=5"});
  const auto message_with = [&](const auto& error) {
    fs::remove_all(config.run_dir);
    const auto trainer = tiny.trainer(config);
    int64_t asked = 0;  // the last time in validation
    return message_of([&] {
      trainer->run([&] {
        if (++asked == 7) throw error;
        return false;
      });
    });
  };
  const std::string saved = "; step 5 is saved, and the same command goes on from there";
  CHECK(message_with(std::bad_alloc()) == "there is not enough memory" + saved);
  CHECK(message_with(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))) ==
        "cannot start a thread: a limit on processes (ulimit -u, a container's) or on memory is reached" +
            saved);
  CHECK(message_with(fs::filesystem_error("directory iterator cannot open directory", "a/b",
                                          std::make_error_code(std::errc::permission_denied))) ==
        "a/b: Permission denied" + saved);
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

TEST_CASE("a run that diverges keeps the checkpoints from before") {
  TinyRun tiny;
  const std::vector<std::string> how{"--checkpoint.every=1", "--checkpoint.keep=3",
                                     "--device.dtype=f32",   "--schedule.kind=constant",
                                     "--schedule.min_lr=0",  "--schedule.on_resume=extend"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), how.begin(), how.end());
    return tiny.config("run", more);
  };
  tiny.trainer(with({"--train.steps=5"}))->run();
  auto diverging = tiny.trainer(with({"--train.steps=30", "--optim.lr=1e30"}));
  CHECK(lacks(message_of([&] { diverging->run(); }), "train.max_bad_steps") == "");
  const int64_t reached = diverging->state().step;
  CHECK(diverging->state().bad_steps_in_a_row == 10);
  diverging.reset();
  std::vector<std::string> sound, unsound;
  for (const auto& entry : fs::directory_iterator(tiny.folder.file("run/checkpoints"))) {
    (why_unsound(entry.path()).empty() ? sound : unsound).push_back(entry.path().filename());
  }
  std::sort(sound.begin(), sound.end());
  CHECK(sound.size() == 3);
  CHECK(std::count(sound.begin(), sound.end(), "step_00000005") == 1);
  REQUIRE(unsound.size() == 1);
  CHECK(std::stoll(unsound[0].substr(5)) >= reached - 1);

  // It is gone on from as it is, which is said, and where to go on from instead.
  CHECK_FALSE(message_of([&] { tiny.trainer(with({"--train.steps=30"}))->run(); }).empty());
  CHECK(lacks(tiny.output.str(), "this checkpoint is not sound: the last 9 steps were not applied") == "");
}
