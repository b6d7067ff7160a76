// What a trainer's start refuses, and that it leaves the run's folder as it was then.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "apps/train/evaluator.h"
#include "apps/train/plan_report.h"
#include "apps/train/trainer.h"
#include "apps/train/training_graph.h"
#include "engine/device/device.h"
#include "engine/passes/plan_memory.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/folder_content.h"
#include "tests/support/message_of.h"
#include "tests/support/unprivileged.h"

using namespace genesis;
namespace fs = std::filesystem;

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
         text.replace(text.find("version\": 2"), 11, "version\": 9");
         replace_text_file(c + "state.json", text);
       }),
       {two + "state.json: in format 9, written by genesis", four + "state.json: in format 9"}},
      {each([](const std::string& c) { fs::remove(c + "state-rank-0-of-1.safetensors"); }),
       {two + "state-rank-0-of-1.safetensors: No such file", four}},
      {each([](const std::string& c) { fs::resize_file(c + "model-00001-of-00001.safetensors", 1000); }),
       {two + "model-00001-of-00001.safetensors: it has 1000 bytes", four}},
      {each([](const std::string& c) { fs::remove(c + "state.json"); }), {two, four}},
      {[&] {
         fs::remove_all(two);
         change_byte(four + "state-rank-0-of-1.safetensors");
       },
       {four + "state-rank-0-of-1.safetensors: its checksum is not the one"}},
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
       {checkpoints, three, three + "/state.json", three + "/model-00001-of-00001.safetensors"}) {
    fs::permissions(closed, fs::perms::none);
    const Config longer = tiny.config("run", {"--train.steps=4", "--schedule.on_resume=extend"});
    const std::string message = message_unprivileged([&] { tiny.trainer(longer); });
    CHECK(lacks(message, "Permission denied") == "");
    CHECK(lacks(message, closed) == "");
    fs::permissions(closed, fs::perms(0777));
    CHECK(content_of(config.run_dir) == before);
  }
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
    const Graph graph = build_training_graph(config, {DType::f32, DeviceKind::cpu, memory, &kCpuRates}).graph;
    const MemoryPlan plan = plan_memory(graph, DeviceKind::cpu);
    size_t bytes = persistent_bytes(graph) + plan.bytes;
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
    // The plan says the same, and the automatic choice keeps within it.
    const auto report = [&](size_t budget) {
      return plan_report(tiny.config("run", {"--device.dtype=f32", "--train.recompute=" + recompute,
                                             fmt::format("--train.memory_budget={}", budget)}),
                         *make_cpu_device());
    };
    CHECK(lacks(report(needed - 1), "DOES NOT FIT, 1 B too much") == "");
    CHECK(report(needed).find("DOES NOT FIT") == std::string::npos);
    if (recompute == "none") {
      CHECK(start({"--train.recompute=auto", fmt::format("--train.memory_budget={}", needed - 1)}) == "");
      fs::remove_all(run);
    }
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
