#include "io/checkpoint.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "io/file.h"
#include "tests/support/catch.h"
#include "tests/support/folder_content.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"
#include "tests/support/unprivileged.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

constexpr const char* kWeights = "/model-00001-of-00001.safetensors";
constexpr const char* kRankState = "/state-rank-0-of-1.safetensors";

// A model of two parameters, of which others call the rows of the first by names of their own, with their moments,
// and a run to save it in.
struct Run {
  TempFolder folder;
  std::string dir = folder.file("run");
  std::vector<float> w{1, 2, 3, 4, 5, 6}, norm{7, 8}, w_m{9, 10, 11, 12, 13, 14}, w_v{15, 16, 17, 18, 19, 20};
  std::vector<float> computed{1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5};
  std::vector<NamedTensor> weights{{"model.q", StoredDType::f32, {1, 3}, computed.data()},
                                   {"model.k", StoredDType::f32, {1, 3}, computed.data() + 3},
                                   {"model.norm", StoredDType::f32, {2}, computed.data() + 6}};
  std::vector<NamedTensor> model{{"layers.0.w", StoredDType::f32, {2, 3}, w.data()},
                                 {"norm", StoredDType::f32, {2}, norm.data()}};
  std::vector<NamedTensor> moments{{"layers.0.w.m", StoredDType::f32, {2, 3}, w_m.data()},
                                   {"layers.0.w.v", StoredDType::f32, {2, 3}, w_v.data()}};
  std::vector<std::string> warnings;
  Warn warn = [this](const std::string& warning) { warnings.push_back(warning); };

  static TrainState state_at(int64_t step) {
    return {step,
            step - 1,
            8 * step,
            2048 * step,
            1,
            0,
            step / 2,
            ~uint64_t(0),
            "model:\n  d: 4 # \u00e9\n",
            "abc",
            "bf16",
            {{"d/a", 1000 * step, 7, "0123"}, {"", 0, 0, ""}}};
  }
  std::string save(const TrainState& state) {
    CheckpointContent content;
    content.state = state;
    content.origin = {"genesis_train 0", "a CPU", 1, 2};
    content.weights = views_of(weights);
    content.masters = whole_slices(views_of(model));
    content.moments = whole_slices(views_of(moments));
    content.files = {{"config.json", "{}\n"}};
    return save_checkpoint(dir, content, warn);
  }
  std::string save(int64_t step) { return save(state_at(step)); }
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
  run.w[1] = -std::numeric_limits<float>::max();
  run.w[2] = -0.f;
  run.w[3] = std::numeric_limits<float>::denorm_min();
  const std::vector<float> w = run.w;
  const auto saved = run.values();
  const std::string path = run.save(1000);
  CHECK(path == run.dir + "/checkpoints/step_00001000");
  run.clear();
  load_checkpoint(path, run.model, run.moments);
  CHECK(std::memcmp(run.w.data(), w.data(), sizeof(float) * w.size()) == 0);
  CHECK(run.norm == saved[1]);
  CHECK(run.w_m == saved[2]);
  CHECK(run.w_v == saved[3]);
  CHECK(read_checkpoint_state(path) == Run::state_at(1000));
}

TEST_CASE("the parameters can be loaded without the moments, in any order") {
  Run run;
  const std::vector<float> saved = run.computed;
  const std::string path = run.save(1);
  fs::remove(path + kRankState);
  run.clear();
  std::fill(run.computed.begin(), run.computed.end(), -1.f);
  std::swap(run.weights[0], run.weights[2]);
  load_checkpoint_weights(path, run.weights, {});
  CHECK(run.computed == saved);
  CHECK(run.values() == std::vector{std::vector<float>(6, -1.f), std::vector<float>(2, -1.f),
                                    std::vector<float>(6, -1.f), std::vector<float>(6, -1.f)});
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
  CHECK(contains(message, path + kRankState + ": not a checkpoint of this model: "));
  CHECK(contains(message, "'master.layers.0.w' is F32 [2, 3] in the file and F32 [3, 2] in the model"));
  CHECK(contains(message, "'master.final_norm' is missing from the file"));
  CHECK(contains(message, "'master.norm' of the file is not in the model"));

  run.model = model;
  run.model[1].dtype = StoredDType::i32;
  CHECK(contains(refusal(), "'master.norm' is F32 [2] in the file and I32 [2] in the model"));

  // The parameters fit and the moments don't: the parameters must not be loaded either.
  run.model = model;
  run.moments.pop_back();
  CHECK(contains(refusal(), path + kRankState + ": not a checkpoint of this model: 'layers.0.w.v' of the"));

  for (int i = 0; i < 30; ++i)
    run.model.push_back({"extra" + std::to_string(i), StoredDType::f32, {}, nullptr});
  CHECK(contains(refusal(), "and 21 more differences"));
  CHECK(run.values() == before);

  const std::vector<float> computed = run.computed;
  run.weights[0].shape = {3, 1};
  CHECK(contains(message_of([&] { load_checkpoint_weights(path, run.weights, {}); }),
                 path + kWeights +
                     ": not a checkpoint of this model: 'model.q' is F32 [1, 3] in the file and F32 [3, 1]"));
  CHECK(run.computed == computed);
}

TEST_CASE("a damaged checkpoint is refused, naming the file, and changes nothing") {
  for (const std::string file : {kWeights, kRankState}) {
    Run run;
    const std::string path = run.save(1);
    run.clear();
    const auto before = run.values();
    const std::vector<float> computed = run.computed;
    const auto refusal = [&] {
      return message_of([&] {
        load_checkpoint_weights(path, run.weights, {});
        load_checkpoint(path, run.model, run.moments);
      });
    };
    change_byte(path + file, 1);
    CHECK(contains(refusal(), path + file + ": its checksum is not the one it was written with"));
    fs::resize_file(path + file, fs::file_size(path + file) - 1);
    CHECK(contains(refusal(), path + file + ": it has"));
    fs::remove(path + file);
    CHECK(contains(refusal(), "cannot read " + path + file + ": No such file"));
    CHECK(run.values() == before);
    CHECK(run.computed == computed);
  }
}

TEST_CASE(
    "a checkpoint from before fields were added has a schedule from step 0, and data and type unknown") {
  Run run;
  const std::string path = run.save(6);
  REQUIRE(read_checkpoint_state(path).schedule_begin == 3);
  auto root = nlohmann::json::parse(read_text_file(path + "/state.json"));
  root["state"].erase("schedule_begin");
  root["state"].erase("dtype");
  root.erase("data");
  root.erase("xxh3");
  const std::string text = root.dump();
  root["xxh3"] = sum_of(std::as_bytes(std::span(text))).xxh3;
  replace_text_file(path + "/state.json", root.dump(2));
  TrainState expected = Run::state_at(6);
  expected.schedule_begin = 0;
  expected.dtype = "";
  expected.data.clear();
  CHECK(read_checkpoint_state(path) == expected);
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
  const std::string version = "\"format_version\": 2";
  text.replace(text.find(version), version.size(), "\"format_version\": 3");
  write(file, text);
  CHECK(contains(message_of([&] { read_checkpoint_state(path); }),
                 file + ": in format 3, written by genesis "));
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

  fs::resize_file(second + kWeights, 100);
  CHECK(latest_checkpoint(run.dir, run.warn) == first);
  CHECK(run.warnings.size() == 3);
  CHECK(contains(run.warnings[2], "model-00001-of-00001.safetensors: it has 100 bytes and was written with"));

  fs::remove(first + kRankState);
  run.warnings.clear();
  const std::string refused = message_of([&] { latest_checkpoint(run.dir, run.warn); });
  CHECK(contains(refused, run.dir + "/checkpoints holds checkpoints, and none of them can be read: "));
  for (const std::string& checkpoint : {first, second, third}) CHECK(contains(refused, checkpoint + ": "));
  CHECK(contains(refused, "/step_7: not a checkpoint's name"));
  CHECK_FALSE(contains(refused, "step_00000950"));
  CHECK_FALSE(contains(refused, "best"));
  CHECK(message_of([&] { find_checkpoint(run.dir, run.warn); }) == refused);
  CHECK(run.warnings.empty());

  for (const std::string& checkpoint : {first, second, third}) fs::remove_all(checkpoint);
  fs::remove(run.dir + "/checkpoints/step_7");
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
  CHECK(contains(message_of([&] { run.save(state); }), "not UTF-8"));
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
}

TEST_CASE("pruning keeps checkpoints of multiples for good, but for unsound ones, beside the newest") {
  Run run;
  const auto steps = [&] {
    std::string text;
    for (const std::string& name : run.names()) text += std::to_string(std::stoll(name.substr(5))) + " ";
    return text;
  };
  for (int64_t step = 1; step <= 13; ++step) {
    TrainState state = Run::state_at(step);
    state.bad_steps_in_a_row = step == 8 ? 1 : 0;
    run.save(state);
    prune_checkpoints(run.dir, 2, 4);
    if (step == 9) CHECK(steps() == "4 7 9 ");
  }
  CHECK(steps() == "4 12 13 ");
  prune_checkpoints(run.dir, 1, 4);
  CHECK(steps() == "4 12 13 ");
  prune_checkpoints(run.dir, 1);
  CHECK(steps() == "13 ");
  CHECK_NOTHROW(prune_checkpoints(run.folder.file("none"), 1));
}

TEST_CASE("only no checkpoints at all is none: a folder that can't be listed is an error") {
  Run run;
  const auto refused = [&] { return message_of([&] { latest_checkpoint(run.dir, run.warn); }); };
  const std::string folder = run.dir + "/checkpoints";
  CHECK(refused().empty());  // no run's folder
  fs::create_directories(folder);
  CHECK(refused().empty());
  fs::remove(folder);
  CHECK(refused().empty());

  write(folder, "");
  CHECK(contains(refused(), "cannot list the checkpoints in " + folder + ": Not a directory"));
  fs::remove(folder);
  fs::create_symlink("elsewhere", folder);
  CHECK(contains(refused(), "cannot list the checkpoints in " + folder + ", a symbolic link: No such file"));
  fs::create_directory(run.dir + "/elsewhere");
  CHECK(refused().empty());
  const std::string saved = run.save(1);
  CHECK(latest_checkpoint(run.dir, run.warn) == saved);

  fs::permissions(run.folder.path(), fs::perms(0755));
  fs::permissions(run.dir + "/elsewhere", fs::perms::none);
  CHECK(contains(message_unprivileged([&] { latest_checkpoint(run.dir, run.warn); }),
                 "cannot list the checkpoints in " + folder + ", a symbolic link: Permission denied"));
  fs::permissions(run.dir + "/elsewhere", fs::perms::owner_all);
}

TEST_CASE("where no checkpoint can be read each is named with its reason, and none is taken for missing") {
  Run run;
  const std::string path = run.save(5), state = path + "/state.json", model = path + kWeights;
  const std::string text = read_text_file(state);
  const auto refused = [&](const std::string& reason) {
    const std::string message = message_of([&] { latest_checkpoint(run.dir, run.warn); });
    CHECK(contains(message, "none of them can be read: " + path + ": "));
    return contains(message, reason);
  };
  write(state, "");
  CHECK(refused("state.json: the file is empty"));
  write(state, "no");
  CHECK(refused("state.json: not JSON"));
  fs::resize_file(state, uint64_t(1) << 40);  // a hole: no disk is used
  CHECK(refused("state.json: 1099511627776 bytes, not the state of a checkpoint"));
  fs::remove(state);
  CHECK(refused("state.json: No such file"));
  std::string future = text;
  const std::string version = "\"format_version\": 2";
  future.replace(future.find(version), version.size(), "\"format_version\": 999");
  write(state, future);
  CHECK(refused("state.json: in format 999, written by genesis "));
  write(state, text);
  fs::rename(model, run.dir + "/aside");
  CHECK(refused("model-00001-of-00001.safetensors: No such file"));
  fs::create_directory(model);
  CHECK(refused("model-00001-of-00001.safetensors: "));
  fs::remove(model);
  write(model, "half");
  CHECK(refused("model-00001-of-00001.safetensors: it has 4 bytes and was written with"));
  fs::rename(run.dir + "/aside", model);
  CHECK(latest_checkpoint(run.dir, run.warn) == path);

  fs::permissions(run.folder.path(), fs::perms(0755));
  for (const std::string& closed : {path, state}) {
    const fs::perms before = fs::status(closed).permissions();
    fs::permissions(closed, fs::perms::none);
    CHECK(contains(message_unprivileged([&] { latest_checkpoint(run.dir, run.warn); }),
                   path + ": cannot read " + state + ": Permission denied"));
    fs::permissions(closed, before);
  }

  // Not the names that a save gives: one that someone gave, and what would hide the checkpoint of that name.
  fs::rename(path, path + ".bak");
  CHECK(contains(message_of([&] { latest_checkpoint(run.dir, run.warn); }),
                 path + ".bak: not a checkpoint's name"));
  fs::rename(path + ".bak", run.dir + "/checkpoints/step_000000005");
  CHECK_FALSE(message_of([&] { latest_checkpoint(run.dir, run.warn); }).empty());
}

TEST_CASE("a checkpoint that can't be read is neither replaced nor removed") {
  Run run;
  run.save(1);
  const std::string path = run.save(2), state = path + "/state.json";
  const auto aside = [&](const std::string& name) { return run.dir + "/checkpoints/step_00000002." + name; };
  write(state, "first");
  run.save(2);
  REQUIRE(run.warnings.size() == 1);
  CHECK(contains(run.warnings[0], path + " could not be read and is kept as step_00000002.unreadable: " +
                                      state + ": not JSON"));
  write(state, "second");
  run.save(2);
  fs::remove_all(path);
  write(path, "a file");
  run.save(2);
  CHECK(run.warnings.size() == 3);
  for (const int64_t step : {3, 4, 5}) run.save(step);
  prune_checkpoints(run.dir, 1);
  CHECK(run.names() == std::set<std::string>{"step_00000002.unreadable", "step_00000002.unreadable.2",
                                             "step_00000002.unreadable.3", "step_00000005"});
  CHECK(read_text_file(aside("unreadable") + "/state.json") == "first");
  CHECK(fs::exists(aside("unreadable") + kWeights));
  CHECK(read_text_file(aside("unreadable.2") + "/state.json") == "second");
  CHECK(read_text_file(aside("unreadable.3")) == "a file");

  // They are checkpoints still: a run is not begun anew beside them.
  fs::remove_all(run.dir + "/checkpoints/step_00000005");
  CHECK(contains(message_of([&] { latest_checkpoint(run.dir, run.warn); }), aside("unreadable")));
}

TEST_CASE("a number that is not finite is not saved, whatever it is of, and nothing is changed") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInf = std::numeric_limits<float>::infinity();
  Run run;
  run.save(1);
  run.save(2);
  const auto before = content_of(run.dir);
  const auto refused = [&](std::vector<float>& values, float value, const std::string& name) {
    const float held = std::exchange(values.back(), value);
    CHECK(contains(message_of([&] { run.save(2); }), "'" + name + "' holds a number that is not finite"));
    CHECK(content_of(run.dir) == before);
    values.back() = held;
  };
  refused(run.w, kNan, "layers.0.w");
  refused(run.norm, -kInf, "norm");
  refused(run.w_m, kInf, "layers.0.w.m");
  refused(run.w_v, kNan, "layers.0.w.v");
  refused(run.computed, kNan, "model.norm");
  // A compute copy in bf16, of a master that only fp32 can hold.
  const std::vector<uint16_t> half{0x3f80, 0x7f80};
  const NamedTensor all = std::exchange(
      run.weights[2], {"model.norm", StoredDType::bf16, {2}, const_cast<uint16_t*>(half.data())});
  CHECK(contains(message_of([&] { run.save(2); }), "'model.norm' holds a number that is not finite"));
  CHECK(content_of(run.dir) == before);
  run.weights[2] = all;
  for (const float most : {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(), 0.f}) {
    run.w[0] = most;
    CHECK(why_unsound(run.save(2)).empty());
  }
}

TEST_CASE("a checkpoint that is not sound pushes none out, and only the last of them is kept") {
  Run run;
  run.save(1);
  run.save(2);
  const auto skipping = [&](int64_t step) {
    TrainState state = Run::state_at(step);
    state.bad_steps_in_a_row = 1;
    return run.save(state);
  };
  for (int64_t step = 3; step <= 6; ++step) {
    CHECK(why_unsound(skipping(step)) ==
          "the last 1 step was not applied, for a loss or gradient that was not finite");
    prune_checkpoints(run.dir, 2);
    CHECK(run.names() ==
          std::set<std::string>{"step_00000001", "step_00000002", "step_0000000" + std::to_string(step)});
  }
  CHECK(latest_checkpoint(run.dir, run.warn) ==
        run.dir + "/checkpoints/step_00000006");  // as it would be today
  run.save(7);
  prune_checkpoints(run.dir, 2);
  CHECK(run.names() == std::set<std::string>{"step_00000002", "step_00000007"});
}

TEST_CASE("a checkpoint from before soundness was noted counts as sound") {
  Run run;
  const std::string file = run.save(1) + "/state.json";
  // As the first version of this format wrote it.
  auto root = nlohmann::json::parse(read_text_file(file));
  root.erase("unsound");
  root.erase("xxh3");
  const std::string text = root.dump();
  root["xxh3"] = sum_of(std::as_bytes(std::span(text))).xxh3;
  write(file, root.dump(2));
  CHECK(why_unsound(run.dir + "/checkpoints/step_00000001").empty());
  CHECK(read_checkpoint_state(run.dir + "/checkpoints/step_00000001") == Run::state_at(1));
}
