#include "io/checkpoint.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

// A model of two parameters with their moments, and a run to save it in.
struct Run {
  TempFolder folder;
  std::string dir = folder.file("run");
  std::vector<float> w{1, 2, 3, 4, 5, 6}, norm{7, 8}, w_m{9, 10, 11, 12, 13, 14}, w_v{15, 16, 17, 18, 19, 20};
  std::vector<NamedTensor> model{{"layers.0.w", StoredDType::f32, {2, 3}, w.data()},
                                 {"norm", StoredDType::f32, {2}, norm.data()}};
  std::vector<NamedTensor> moments{{"layers.0.w.m", StoredDType::f32, {2, 3}, w_m.data()},
                                   {"layers.0.w.v", StoredDType::f32, {2, 3}, w_v.data()}};
  std::vector<std::string> warnings;
  Warn warn = [this](const std::string& warning) { warnings.push_back(warning); };

  static TrainState state_at(int64_t step) {
    return {step, step - 1, 8 * step, 2048 * step, 1, 0, ~uint64_t(0), "model:\n  d: 4 # \u00e9\n", "abc"};
  }
  std::string save(int64_t step) {
    return save_checkpoint(dir, state_at(step), views_of(model), views_of(moments));
  }
  std::vector<std::vector<float>> values() const { return {w, norm, w_m, w_v}; }
  void clear() {
    for (auto* v : {&w, &norm, &w_m, &w_v}) std::fill(v->begin(), v->end(), -1.f);
  }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& e : fs::directory_iterator(dir + "/checkpoints")) names.insert(e.path().filename());
    return names;
  }
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void change_byte(const std::string& path, std::streamoff from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-from_end, std::ios::end);
  const char c = char(file.get() ^ 1);
  file.seekp(-from_end, std::ios::end);
  file.put(c);
  REQUIRE(file.good());
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a checkpoint gives back every bit") {
  Run run;
  run.w[1] = std::numeric_limits<float>::quiet_NaN();
  run.w[2] = -0.f;
  run.w[3] = std::numeric_limits<float>::denorm_min();
  const std::vector<float> w = run.w;
  const auto saved = run.values();
  const std::string path = run.save(1000);
  CHECK(path == run.dir + "/checkpoints/step_00001000");
  run.clear();
  load_checkpoint(path, run.model, run.moments);
  CHECK(std::memcmp(run.w.data(), w.data(), sizeof(float) * w.size()) == 0);
  run.w[1] = 0;
  CHECK(run.norm == saved[1]);
  CHECK(run.w_m == saved[2]);
  CHECK(run.w_v == saved[3]);
  CHECK(read_checkpoint_state(path) == Run::state_at(1000));
}

TEST_CASE("the parameters can be loaded without the moments, in any order") {
  Run run;
  const auto saved = run.values();
  const std::string path = run.save(1);
  fs::remove(path + "/optimizer.safetensors");
  run.clear();
  std::swap(run.model[0], run.model[1]);
  load_checkpoint_model(path, run.model);
  CHECK(run.w == saved[0]);
  CHECK(run.norm == saved[1]);
  CHECK(run.w_m == std::vector<float>(6, -1.f));
}

TEST_CASE("loading lists every tensor that does not fit, and changes nothing") {
  Run run;
  const std::string path = run.save(1);
  run.clear();
  const auto before = run.values();
  const auto refusal = [&] { return message_of([&] { load_checkpoint(path, run.model, run.moments); }); };

  auto model = run.model;
  run.model[0].shape = {3, 2};
  run.model[1].name = "final_norm";
  const std::string message = refusal();
  CHECK(contains(message, path + "/model.safetensors: not a checkpoint of this model: "));
  CHECK(contains(message, "'layers.0.w' is F32 [2, 3] in the file and F32 [3, 2] in the model"));
  CHECK(contains(message, "'final_norm' is missing from the file"));
  CHECK(contains(message, "'norm' of the file is not in the model"));

  run.model = model;
  run.model[1].dtype = StoredDType::i32;
  CHECK(contains(refusal(), "'norm' is F32 [2] in the file and I32 [2] in the model"));

  // The parameters fit and the moments don't: the parameters must not be loaded either.
  run.model = model;
  run.moments.pop_back();
  CHECK(contains(refusal(),
                 path + "/optimizer.safetensors: not a checkpoint of this model: 'layers.0.w.v' of the"));

  for (int i = 0; i < 30; ++i)
    run.model.push_back({"extra" + std::to_string(i), StoredDType::f32, {}, nullptr});
  CHECK(contains(refusal(), "and 20 more differences"));
  CHECK(run.values() == before);
}

TEST_CASE("a damaged checkpoint is refused, naming the file, and changes nothing") {
  for (const std::string file : {"model.safetensors", "optimizer.safetensors"}) {
    Run run;
    const std::string path = run.save(1);
    run.clear();
    const auto before = run.values();
    const auto refusal = [&] { return message_of([&] { load_checkpoint(path, run.model, run.moments); }); };
    change_byte(path + "/" + file, 1);
    CHECK(contains(refusal(), path + "/" + file + ": its checksum is not the one it was written with"));
    fs::resize_file(path + "/" + file, fs::file_size(path + "/" + file) - 1);
    CHECK(contains(refusal(), path + "/" + file + ": it has"));
    fs::remove(path + "/" + file);
    CHECK(contains(refusal(), path + "/" + file + ": No such file"));
    CHECK(run.values() == before);
  }
}

TEST_CASE("state.json is refused after any change of a byte") {
  Run run;
  const std::string path = run.save(7);
  const std::string file = path + "/state.json", text = read_text_file(file);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    write(file, changed);
    INFO(i << ": " << changed);
    CHECK(contains(message_of([&] { read_checkpoint_state(path); }), file));
  }
}

TEST_CASE("a state that this version can't read says which version wrote it") {
  Run run;
  const std::string path = run.save(1), file = path + "/state.json";
  std::string text = read_text_file(file);
  const std::string version = "\"format_version\": 1";
  text.replace(text.find(version), version.size(), "\"format_version\": 2");
  write(file, text);
  CHECK(contains(message_of([&] { read_checkpoint_state(path); }),
                 file + ": in format 2, written by genesis "));
  write(file, "{}");
  CHECK(contains(message_of([&] { read_checkpoint_state(path); }), file + ": not the state of a checkpoint"));
}

TEST_CASE("the latest complete checkpoint is found, and broken ones are told of") {
  Run run;
  CHECK_FALSE(latest_checkpoint(run.dir, run.warn).has_value());
  CHECK(contains(message_of([&] { find_checkpoint(run.dir, run.warn); }), run.dir + ": no such folder"));
  const std::string first = run.save(1), second = run.save(900), third = run.save(100'000'000);
  CHECK(third == run.dir + "/checkpoints/step_100000000");
  fs::create_directories(run.dir + "/checkpoints/step_00000950.tmp");
  fs::create_directories(run.dir + "/checkpoints/best");
  write(run.dir + "/checkpoints/step_7", "");
  CHECK(latest_checkpoint(run.dir, run.warn) == third);
  CHECK(find_checkpoint(run.dir, run.warn) == third);
  CHECK(find_checkpoint(first, run.warn) == first);
  CHECK(run.warnings.empty());

  fs::remove(third + "/state.json");
  CHECK(latest_checkpoint(run.dir, run.warn) == second);
  REQUIRE(run.warnings.size() == 1);
  CHECK(contains(run.warnings[0], "skipping the broken checkpoint " + third + ": "));
  CHECK(contains(run.warnings[0], "state.json: No such file"));

  fs::resize_file(second + "/model.safetensors", 100);
  CHECK(latest_checkpoint(run.dir, run.warn) == first);
  CHECK(run.warnings.size() == 3);
  CHECK(contains(run.warnings[2], "model.safetensors: it has 100 bytes and was written with"));

  fs::remove(first + "/optimizer.safetensors");
  CHECK_FALSE(latest_checkpoint(run.dir, run.warn).has_value());
  CHECK(contains(message_of([&] { find_checkpoint(run.dir, run.warn); }),
                 "nor a run's with a complete checkpoint"));
}

TEST_CASE("a checkpoint of the same step is replaced, and an interrupted save is cleared away") {
  Run run;
  run.save(5);
  fs::create_directories(run.dir + "/checkpoints/step_00000004.tmp");
  write(run.dir + "/checkpoints/step_00000004.tmp/model.safetensors", "half");
  run.w[0] = 100;
  const std::string path = run.save(5);
  CHECK(run.names() == std::set<std::string>{"step_00000005"});
  run.clear();
  load_checkpoint(path, run.model, run.moments);
  CHECK(run.w[0] == 100);
}

TEST_CASE("a save that fails leaves what was there and no half of its own") {
  Run run;
  const std::string path = run.save(5);
  run.moments[1].name = run.moments[0].name;
  run.w[0] = 100;
  CHECK(contains(message_of([&] { run.save(5); }), "tensor 'layers.0.w.m': given twice"));
  CHECK(run.names() == std::set<std::string>{"step_00000005"});
  run.moments[1].name = "layers.0.w.v";
  load_checkpoint(path, run.model, run.moments);
  CHECK(run.w[0] == 1);

  TrainState state = Run::state_at(6);
  state.config = "\xff";
  CHECK(contains(message_of([&] { save_checkpoint(run.dir, state, {}, {}); }), "not UTF-8"));
  CHECK(run.names() == std::set<std::string>{"step_00000005"});
}

TEST_CASE("pruning keeps the newest complete checkpoints, and the broken ones") {
  Run run;
  for (const int64_t step : {1, 2, 3, 4, 5}) run.save(step);
  fs::remove(run.dir + "/checkpoints/step_00000004/state.json");
  prune_checkpoints(run.dir, 5);
  CHECK(run.names().size() == 5);
  prune_checkpoints(run.dir, 2);
  CHECK(run.names() == std::set<std::string>{"step_00000003", "step_00000004", "step_00000005"});
  prune_checkpoints(run.dir, 1);
  CHECK(run.names() == std::set<std::string>{"step_00000004", "step_00000005"});
  CHECK(contains(message_of([&] { prune_checkpoints(run.dir, 0); }), "at least 1, found 0"));
  CHECK_NOTHROW(prune_checkpoints(run.folder.file("none"), 1));
}
