#include "apps/train/trainer.h"

#include <fmt/format.h>
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

#include "apps/train/evaluator.h"
#include "apps/train/training_graph.h"
#include "engine/passes/plan_memory.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/folder_content.h"
#include "tests/support/message_of.h"
#include "tests/support/unprivileged.h"

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

TEST_CASE("a run whose checkpoints can't be read is not begun anew, and nothing of it is touched") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--train.steps=4", "--checkpoint.every=2"});
  const std::string checkpoints = config.run_dir + "/checkpoints/", two = checkpoints + "step_00000002/",
                    four = checkpoints + "step_00000004/";
  tiny.trainer(config)->run();
  const auto change_byte = [](const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('x');
  };
  const auto each = [&](const std::function<void(const std::string&)>& damage) {
    return [=] {
      damage(two);
      damage(four);
    };
  };
  struct Damage {
    std::function<void()> make;
    std::vector<std::string> said;
  };
  const Damage damages[] = {
      {each([](const std::string& c) { std::ofstream(c + "state.json", std::ios::trunc).flush(); }),
       {two + "state.json: the file is empty", four + "state.json: the file is empty"}},
      {each([](const std::string& c) {
         std::string text = read_text_file(c + "state.json");
         text.replace(text.find("version\": 1"), 11, "version\": 9");
         replace_text_file(c + "state.json", text);
       }),
       {two + "state.json: in format 9, written by genesis", four + "state.json: in format 9"}},
      {each([](const std::string& c) { fs::remove(c + "optimizer.safetensors"); }),
       {two + "optimizer.safetensors: No such file", four}},
      {each([](const std::string& c) { fs::resize_file(c + "model.safetensors", 1000); }),
       {two + "model.safetensors: it has 1000 bytes", four}},
      {each([](const std::string& c) { fs::remove(c + "state.json"); }), {two, four}},
      {[&] {
         fs::remove_all(two);
         change_byte(four + "optimizer.safetensors");
       },
       {four + "optimizer.safetensors: its checksum is not the one"}},
      {[&] {
         fs::remove_all(checkpoints);
         tiny.folder.put("run/checkpoints", "");
       },
       {"cannot list the checkpoints"}},
      {[&] {
         fs::rename(checkpoints.substr(0, checkpoints.size() - 1), tiny.folder.file("moved"));
         fs::create_symlink("nowhere", config.run_dir + "/checkpoints");
       },
       {"cannot list the checkpoints", "a symbolic link"}},
  };
  const fs::path kept = tiny.folder.file("kept");
  fs::copy(config.run_dir, kept, fs::copy_options::recursive);
  for (const Damage& damage : damages) {
    fs::remove_all(config.run_dir);
    fs::copy(kept, config.run_dir, fs::copy_options::recursive);
    damage.make();
    const auto before = content_of(config.run_dir);
    const Config longer =
        tiny.config("run", {"--train.steps=8", "--checkpoint.every=2", "--schedule.on_resume=extend"});
    const std::string message = message_of([&] { tiny.trainer(longer); });
    for (const std::string& part : damage.said) CHECK(lacks(message, part) == "");
    CHECK(content_of(config.run_dir) == before);
    fs::remove_all(tiny.folder.file("moved"));
  }
}

TEST_CASE("a user without permission to read a run's checkpoints doesn't begin it anew") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--train.steps=3"});
  tiny.trainer(config)->run();
  const std::string checkpoints = config.run_dir + "/checkpoints", three = checkpoints + "/step_00000003";
  // All else may be written by everybody.
  fs::permissions(tiny.folder.path(), fs::perms(0777));
  for (const auto& entry : fs::recursive_directory_iterator(tiny.folder.path())) {
    fs::permissions(entry.path(), fs::perms(0777));
  }
  const auto before = content_of(config.run_dir);
  for (const std::string& closed :
       {checkpoints, three, three + "/state.json", three + "/model.safetensors"}) {
    fs::permissions(closed, fs::perms::none);
    const Config longer = tiny.config("run", {"--train.steps=4", "--schedule.on_resume=extend"});
    const std::string message = message_unprivileged([&] { tiny.trainer(longer); });
    CHECK(lacks(message, "Permission denied") == "");
    CHECK(lacks(message, closed) == "");
    fs::permissions(closed, fs::perms(0777));
    CHECK(content_of(config.run_dir) == before);
  }
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

TEST_CASE("a start that fails leaves the run's folder as it was found") {
  TinyRun tiny;
  const std::string run = tiny.folder.file("new/run");
  const auto starts = [&](const std::vector<std::string>& overrides) {
    return message_of([&] { tiny.trainer(tiny.config("new/run", overrides)); });
  };
  // What a start can trip over once it has claimed the folder, in a folder of its own and in one with a run.
  for (const bool resumed : {false, true}) {
    INFO("resumed: " << resumed);
    fs::remove_all(tiny.folder.file("new"));
    if (resumed) {
      tiny.trainer(tiny.config("new/run", {"--train.steps=3"}))->run();
      // Records of later steps, that a start which comes through cuts off.
      std::ofstream(run + "/metrics.jsonl", std::ios::app) << "{\"kind\":\"step\",\"step\":4}\n";
    } else {
      fs::create_directories(run);
    }
    const std::vector<std::string> how{"--train.steps=3", "--log.every=7"};
    const auto with = [&](const std::string& name, const std::function<void(const std::string&)>& put) {
      const std::string path = run + "/" + name, aside = tiny.folder.file("aside");
      const bool was = fs::exists(path);
      if (was) fs::rename(path, aside);
      put(path);
      const auto before = content_of(run);
      CHECK(lacks(starts(how), name) == "");
      CHECK(content_of(run) == before);
      fs::remove_all(path);
      if (was) fs::rename(aside, path);
    };
    const auto folder = [](const std::string& path) { fs::create_directory(path); };
    const auto file = [](const std::string& path) { std::ofstream(path) << "a file"; };
    const auto dangling = [](const std::string& path) { fs::create_symlink("none/none", path); };
    with("metrics.jsonl", folder);
    with("metrics.jsonl", dangling);
    with("tensorboard", file);
    with("tensorboard", dangling);
    with("checkpoints", file);
    with("lock", folder);
    with("config.yaml", folder);
    with("config.yaml.tmp", folder);
    // And before.
    const std::string missing = tiny.folder.file("none"), text = tiny.folder.put("text", "no model");
    const std::pair<std::string, std::string> wrong[] = {
        {"--data.train=" + missing, missing},
        {"--data.validation=" + missing, missing},
        {"--data.tokenizer=" + missing, missing},
        {"--data.tokenizer=" + text, text},
        {"--data.tokenizer=" + tiny.folder.path().string(), tiny.folder.path().string()},
        {"--model.vocab_size=32", "a.bin"},
        {"--data.sequence_length=512", "fewer than one sequence"},
        {"--train.batch_size=64", "fewer than a global batch"},
        {"--train.memory_budget=64KiB", "train.memory_budget"},
        {"--device.kind=cuda", "device.kind"}};
    for (const auto& [override_, part] : wrong) {
      INFO(override_);
      const auto before = content_of(run);
      std::vector<std::string> all = how;
      all.push_back(override_);
      CHECK(lacks(starts(all), part) == "");
      CHECK(content_of(run) == before);
    }
    // The corrected config runs there.
    CHECK(starts(how).empty());
    CHECK(read_text_file(run + "/config.yaml") == print_config(tiny.config("new/run", how)));
  }

  // A folder that has not been there is not there.
  fs::remove_all(tiny.folder.file("new"));
  CHECK(lacks(starts({"--train.memory_budget=64KiB", "--train.recompute=none"}), "more than") == "");
  CHECK_FALSE(fs::exists(tiny.folder.file("new")));
  CHECK(starts({}).empty());
}

TEST_CASE("a plan that does not fit is refused before anything is allocated, whatever is recomputed") {
  TinyRun tiny;
  const std::string recompute = GENERATE("none", "block", "auto");
  INFO("recompute " << recompute);
  const std::string run = tiny.folder.file("run");
  const auto start = [&](std::vector<std::string> how) {
    how.insert(how.begin(), {"--device.dtype=f32", "--train.recompute=" + recompute});
    return message_of([&] { tiny.trainer(tiny.config("run", how)); });
  };
  // To the byte: of all that is planned, of which training is the most here.
  const Config config = tiny.config("run", {"--device.dtype=f32", "--train.recompute=" + recompute});
  const auto planned = [&](size_t memory) {
    const Graph graph = build_training_graph(config, {DType::f32, DeviceKind::cpu, memory}).graph;
    const MemoryPlan plan = plan_memory(graph, DeviceKind::cpu);
    size_t bytes = persistent_bytes(graph) + plan.bytes + plan.constant_bytes;
    for (const auto& v : validation_graphs(config, DType::f32)) {
      bytes += plan_memory(v.graph, DeviceKind::cpu).constant_bytes;
    }
    return bytes;
  };
  if (recompute != "auto") {
    const size_t needed = planned(size_t(1) << 40);
    const std::string refused = start({fmt::format("--train.memory_budget={}", needed - 1)});
    CHECK(lacks(refused, "training needs ") == "");
    CHECK(lacks(refused, " of train.memory_budget: choose train.recompute: auto, lower ") == "");
    CHECK_FALSE(fs::exists(run));
    CHECK(start({fmt::format("--train.memory_budget={}", needed)}).empty());
    fs::remove_all(run);
  }
  CHECK(lacks(start({"--train.memory_budget=300KiB"}), "train.memory_budget") == "");
  CHECK_FALSE(fs::exists(run));
  // Parameters: terabytes, in arrays of which each would be given.
  CHECK(lacks(start({"--model.layers=128", "--model.ffn_size=65536", "--model.hidden_size=8192"}), " TiB") ==
        "");
  CHECK_FALSE(fs::exists(run));
  // More than any number of bytes can say.
  CHECK(lacks(start({"--train.micro_batch=1000000", "--train.batch_size=1000000", "--model.ffn_size=1048576",
                     "--model.hidden_size=1048576"}),
              " alone, of shape [") == "");
  CHECK_FALSE(fs::exists(run));
}
