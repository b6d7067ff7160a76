// What a run that goes on checks: its data's content, its type, its newest checkpoint.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/device.h"
#include "apps/train/trainer.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/folder_content.h"
#include "tests/support/message_of.h"

using namespace genesis;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// As if written before checkpoints noted what was trained on.
void forget_data(const std::string& checkpoint) {
  const std::string path = checkpoint + "/state.json";
  json root = json::parse(read_text_file(path));
  root.erase("data");
  root["state"].erase("dtype");
  root.erase("xxh3");
  const std::string text = root.dump();
  root["xxh3"] = sum_of(std::as_bytes(std::span(text))).xxh3;
  replace_text_file(path, root.dump(2));
}

}  // namespace

TEST_CASE("a run goes on with its data wherever that lies, and not with other data under its name") {
  TinyRun tiny;
  const std::vector<std::string> how{"--train.steps=6", "--checkpoint.every=2"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = how;
    all.insert(all.end(), more.begin(), more.end());
    return tiny.config("run", all);
  };
  const auto whole = tiny.trainer(tiny.config("whole", how));
  whole->run();
  const std::string expected = state_bytes(whole->storage());
  const auto begin = [&](int64_t steps) {
    fs::remove_all(tiny.folder.file("run"));
    const auto trainer = tiny.trainer(with({}));
    trainer->run([&] { return trainer->state().step == steps; });
  };
  const std::string a = tiny.folder.file("a"), b = tiny.folder.file("b"), moved = tiny.folder.file("moved");
  const auto data_train = [](const std::string& first, const std::string& second) {
    return "--data.train=[{path: " + first + ", weight: 2}, {path: " + second + ", weight: 1}]";
  };
  const auto move = [](const std::string& from, const std::string& to) {
    for (const char* extension : {".bin", ".idx", ".json"}) fs::rename(from + extension, to + extension);
  };
  const auto refused = [&](const std::vector<std::string>& more) {
    const auto before = content_of(tiny.folder.file("run"));
    const std::string message = message_of([&] { tiny.trainer(with(more)); });
    CHECK(content_of(tiny.folder.file("run")) == before);
    return message;
  };

  SECTION("moved") {
    begin(3);
    move(a, moved);
    CHECK(lacks(refused({}), a + ".json") == "");
    const auto again = tiny.trainer(with({data_train(moved, b)}));
    CHECK(lacks(tiny.output.str(), moved + " holds what " + a + " held: the same data") == "");
    again->run();
    CHECK(state_bytes(again->storage()) == expected);
  }
  SECTION("replaced") {
    begin(3);
    write_tiny_dataset(a, 9, 50, 4);
    const std::string message = refused({});
    CHECK(lacks(message, "data.train[0], " + a + ", holds 459 tokens in 9 documents (content hash ") == "");
    CHECK(lacks(message, a + " held 408 tokens in 8 documents (content hash ") == "");
    CHECK(lacks(message, "data.changed: allow") == "");
    {
      const auto again = tiny.trainer(with({"--data.changed=allow"}));
      CHECK(lacks(tiny.output.str(), "going on with what is there, for data.changed is allow") == "");
      again->run([&] { return again->state().step == 4; });
    }
    // From then on it is what the run is trained on.
    tiny.trainer(with({}))->run();
    CHECK(tiny.output.str().find("data.changed") == std::string::npos);
  }
  SECTION("replaced by as many tokens in as many documents") {
    begin(3);
    write_tiny_dataset(a, 8, 50, 4);
    CHECK(lacks(refused({}), "holds 408 tokens in 8 documents") == "");
  }
  SECTION("in another order") {
    begin(3);
    CHECK(lacks(refused({data_train(b, a)}), "is data.train[1] now: give them in their old order") == "");
  }
  SECTION("before checkpoints noted it") {
    begin(3);
    forget_data(tiny.folder.file("run/checkpoints/step_00000003"));
    move(a, moved);
    CHECK(lacks(refused({data_train(moved, b)}), "data.train[0] was " + a + ", is " + moved) == "");
    const auto again = tiny.trainer(with({data_train(moved, b), "--data.changed=allow"}));
    again->run();
    CHECK(state_bytes(again->storage()) == expected);
  }
}

TEST_CASE("the same data under two names is seen to be the same") {
  TinyRun tiny;
  const std::string a = tiny.folder.file("a"), v = tiny.folder.file("v");
  const auto make = [&](const std::string& name,
                        const std::function<void(const fs::path&, const fs::path&)>& link) {
    fs::create_directories(tiny.folder.file(name));
    for (const char* extension : {".bin", ".idx", ".json"}) {
      link(a + extension, tiny.folder.file(name + "/x") + extension);
      link(v + extension, tiny.folder.file(name + "/v") + extension);
    }
    return tiny.folder.file(name + "/");
  };
  const std::string copy = make("copy", [](const auto& from, const auto& to) { fs::copy(from, to); });
  const std::string soft =
      make("soft", [](const auto& from, const auto& to) { fs::create_symlink(from, to); });
  const std::string hard =
      make("hard", [](const auto& from, const auto& to) { fs::create_hard_link(from, to); });
  const auto start = [&](const std::string& override_) {
    const std::string message = message_of([&] { tiny.trainer(tiny.config("run", {override_})); });
    CHECK_FALSE(fs::exists(tiny.folder.file("run")));
    return message;
  };
  for (const std::string& other :
       {copy + "x", soft + "x", hard + "x", copy + "../a", copy + "..//copy/./x"}) {
    CHECK(start("--data.validation=" + other) ==
          "data.validation: " + other + " holds the same tokens as " + a + ", which is trained on");
    CHECK(start("--data.train=[" + a + ", " + other + "]") == "data.train: " + other +
                                                                  " holds the same tokens as " + a +
                                                                  "; name one of them, with a larger weight");
  }
  CHECK(lacks(start("--data.validation=[" + v + ", " + soft + "v]"), "holds the same tokens as " + v) == "");
}

TEST_CASE("a run that would be computed in another type says so, and is refused where the machine chose it") {
  TinyRun tiny;
  const auto config = [&](const std::string& dtype) {
    return tiny.config("run", {"--train.steps=4", "--checkpoint.every=1", "--device.dtype=" + dtype});
  };
  const DType own = compute_type(config("auto").device, DeviceKind::cpu),
              other = own == DType::f32 ? DType::bf16 : DType::f32;
  {
    const auto trainer = tiny.trainer(config(name_of(other)));
    trainer->run([&] { return trainer->state().step == 2; });
  }
  const auto before = content_of(tiny.folder.file("run"));
  const std::string message = message_of([&] { tiny.trainer(config("auto")); });
  CHECK(lacks(message,
              fmt::format(
                  "was computed in {}, and device.dtype: auto is {} on this machine: set device.dtype to "
                  "{} to go on as before",
                  name_of(other), name_of(own), name_of(other))) == "");
  CHECK(content_of(tiny.folder.file("run")) == before);
  tiny.trainer(config(name_of(other)));
  CHECK(tiny.output.str().find("computed in") == std::string::npos);
  {
    const auto trainer = tiny.trainer(config(name_of(own)));
    CHECK(lacks(tiny.output.str(), fmt::format("computed in {} from here on, and in {} before", name_of(own),
                                               name_of(other))) == "");
    trainer->run([&] { return trainer->state().step == 3; });
  }
  tiny.trainer(config("auto"))->run();
  CHECK(tiny.output.str().find("from here on") == std::string::npos);
  // A checkpoint that doesn't say: its config may.
  forget_data(tiny.folder.file("run/checkpoints/step_00000004"));
  tiny.trainer(config(name_of(other)));
  CHECK(tiny.output.str().find("from here on") == std::string::npos);
}

TEST_CASE("a newest checkpoint that was damaged is passed over aloud, kept aside, and made again") {
  TinyRun tiny;
  const std::vector<std::string> how{"--train.steps=6", "--checkpoint.every=2", "--checkpoint.keep=1"};
  const std::string run = tiny.folder.file("run"), four = run + "/checkpoints/step_00000004";
  const auto whole = tiny.trainer(tiny.config("whole", how));
  whole->run();
  {
    std::vector<std::string> all = how;
    all.back() = "--checkpoint.keep=0";
    const auto trainer = tiny.trainer(tiny.config("run", all));
    trainer->run([&] { return trainer->state().step == 4; });
  }
  const fs::path kept = tiny.folder.file("kept");
  fs::copy(run, kept, fs::copy_options::recursive);
  const auto flip = [](const std::string& path, double part) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(std::streamoff(part * double(fs::file_size(path) - 1)));
    const char c = char(file.get() ^ 1);
    file.seekp(-1, std::ios::cur);
    file.put(c);
  };
  for (const std::string name :
       {"/model-00001-of-00001.safetensors", "/state-rank-0-of-1.safetensors", "/state.json"}) {
    // By two bytes at least: the last one of state.json is a line end.
    const std::function<void()> damages[] = {
        [&] { flip(four + name, 0); }, [&] { flip(four + name, 0.7); }, [&] { flip(four + name, 1); },
        [&] { fs::resize_file(four + name, fs::file_size(four + name) - 2); },
        [&] { fs::remove(four + name); }};
    for (const auto& damage : damages) {
      fs::remove_all(run);
      fs::copy(kept, run, fs::copy_options::recursive);
      damage();
      const auto damaged = content_of(four);
      const auto again = tiny.trainer(tiny.config("run", how));
      CHECK(again->state().step == 2);
      CHECK(lacks(tiny.output.str(), "skipping the broken checkpoint " + four + ": ") == "");
      CHECK(lacks(tiny.output.str(), four + name) == "");
      CHECK(lacks(tiny.output.str(), four + " could not be read and is kept as step_00000004.unreadable") ==
            "");
      again->run();
      CHECK(state_bytes(again->storage()) == state_bytes(whole->storage()));
      CHECK(content_of(four + ".unreadable") == damaged);
      CHECK(fs::exists(run + "/checkpoints/step_00000006"));
    }
  }
}
