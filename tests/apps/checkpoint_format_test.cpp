// Runs that go on from checkpoints of each format that is read: 2, which is written, 1, which was, and one from the
// future.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/runtime/parameters.h"
#include "io/checkpoint_tensors.h"
#include "tests/apps/shell.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/folder_content.h"
#include "tests/support/message_of.h"

using namespace genesis;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string kFixture = GENESIS_SOURCE_DIR "/tests/apps/format_1/step_00000002";

// As a version of this library that wrote format 1 would have written it.
void make_format_1(const std::string& checkpoint) {
  const CheckpointManifest manifest = read_manifest(checkpoint);
  json root = json::parse(read_text_file(checkpoint + "/state.json"));
  root["format_version"] = 1;
  for (const char* field : {"files", "origin", "xxh3"}) root.erase(field);
  {
    const SafetensorsFile state(checkpoint + "/state-rank-0-of-1.safetensors");
    std::vector<TensorView> masters, moments;
    for (const TensorView& t : state.tensors()) {
      const bool master = t.name.starts_with("master.");
      (master ? masters : moments).push_back(t);
      if (master) masters.back().name = t.name.substr(std::string("master.").size());
    }
    const auto write = [&](const char* name, const std::vector<TensorView>& tensors) {
      const FileSum sum = write_safetensors(checkpoint + "/" + name, tensors);
      root["files"][name] = {{"bytes", sum.bytes}, {"xxh3", sum.xxh3}};
    };
    write("model.safetensors", masters);
    write("optimizer.safetensors", moments);
  }
  const std::string text = root.dump();
  root["xxh3"] = sum_of(std::as_bytes(std::span(text))).xxh3;
  replace_text_file(checkpoint + "/state.json", root.dump(2));
  for (const auto& [name, file] : manifest.files) fs::remove(checkpoint + "/" + name);
}

std::string losses_of(const std::string& run) {
  std::string losses;
  std::istringstream lines(read_text_file(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json entry = json::parse(line);
    if (entry.contains("loss"))
      losses += fmt::format("{} {} {}\n", entry["step"].dump(), entry["loss"].dump(),
                            entry.value("lr", json()).dump());
  }
  return losses;
}

// The fixture's run: what it was written by, in a folder of this test's.
Config fixture_config(const TinyRun& tiny, const std::string& run, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--run_dir=" + tiny.folder.file(run), "--data.validation=" + tiny.folder.file("v"),
                           "--data.train=[{path: " + tiny.folder.file("a") +
                               ", weight: 2}, {path: " + tiny.folder.file("b") + ", weight: 1}]"});
  return parse_config(read_manifest(kFixture).state.config, "the fixture's config", more);
}

}  // namespace

TEST_CASE(
    "2N steps have the bits of N and N more from a checkpoint, in either format and any kind of model") {
  const std::vector<std::vector<std::string>> kinds{
      {"--device.dtype=f32"},
      {"--device.dtype=bf16"},
      {"--optim.kind=muon", "--model.qk_norm=true"},
      {"--model.tie_embeddings=false"},
      {"--model.layers=3", "--model.recurrence.prelude=1", "--model.recurrence.core=1",
       "--model.recurrence.coda=1", "--model.recurrence.steps=2"},
  };
  TinyRun tiny;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    INFO("kind " << kind);
    const auto config = [&](const std::string& run) {
      std::vector<std::string> how = kinds[kind];
      how.insert(how.end(), {"--train.steps=12", "--checkpoint.every=6"});  // past the end of an epoch
      return tiny.config(run + std::to_string(kind), how);
    };
    const auto whole = tiny.trainer(config("whole"));
    whole->run();
    for (const int format : {2, 1}) {
      INFO("format " << format);
      const Config half = config("format_" + std::to_string(format) + "_");
      {
        const auto trainer = tiny.trainer(half);
        trainer->run([&] { return trainer->state().step == 6; });
      }
      if (format == 1) make_format_1(half.run_dir + "/checkpoints/step_00000006");
      const auto trainer = tiny.trainer(half);
      REQUIRE(trainer->state().step == 6);
      trainer->run();
      CHECK(state_bytes(trainer->storage()) == state_bytes(whole->storage()));
      CHECK(losses_of(half.run_dir) == losses_of(config("whole").run_dir));
      CHECK(read_manifest(half.run_dir + "/checkpoints/step_00000012").format_version == 2);
    }
  }
}

TEST_CASE("a checkpoint that a version of format 1 wrote is read, gone on from, and left as it is") {
  TinyRun tiny;
  const std::string run = tiny.folder.file("run"), two = run + "/checkpoints/step_00000002";
  fs::create_directories(run + "/checkpoints");
  fs::copy(kFixture, two, fs::copy_options::recursive);
  const auto before = content_of(two);
  const Config config = fixture_config(tiny, "run");
  tiny.folder.put("run/config.yaml", print_config(config));
  const auto trainer = tiny.trainer(config);
  CHECK(lacks(tiny.output.str(), "going on from " + two) == "");
  CHECK(trainer->state().step == 2);
  CHECK(trainer->state().samples == 8);
  const auto numbers = [](const TensorView& t) {
    std::vector<float> values(byte_size(t.dtype, t.shape, t.name) / sizeof(float));
    std::memcpy(values.data(), t.data, values.size() * sizeof(float));
    return values;
  };
  const SafetensorsFile masters(two + "/model.safetensors"), moments(two + "/optimizer.safetensors");
  CHECK(masters.tensors().size() == 8);
  CHECK(moments.tensors().size() == 16);
  for (const TensorView& t : masters.tensors()) {
    CHECK(get_parameter(trainer->storage(), t.name) == numbers(t));
  }
  for (const TensorView& t : moments.tensors()) {
    std::vector<float> held = numbers(t), found(held.size());
    trainer->storage().read(t.name, found.data(), found.size() * sizeof(float));
    CHECK(found == held);
    CHECK(held != std::vector<float>(held.size(), 0.f));
  }
  trainer->run();
  CHECK(content_of(two) == before);
  CHECK(read_manifest(run + "/checkpoints/step_00000004").format_version == 2);

  const Shell shell("genesis_checkpoint");
  const Outcome verified = shell.run("verify " + run);
  CHECK(verified.out == two + ": whole\n" + run + "/checkpoints/step_00000004: whole\n");
  const Outcome shown = shell.run("show --tensors " + two);
  CHECK(lacks(shown.out, "    layers.0.attn.qkv.weight F32 [48, 16]\n") == "");
  const Outcome compared = shell.run("diff " + two + " " + run);
  CHECK(compared.code == 1);
  CHECK(lacks(compared.err, two + " is in format 1 and ") == "");
}

TEST_CASE("a model scores the same from either format, with its optimizer's state or without") {
  TinyRun tiny;
  for (const std::string dtype : {"f32", "bf16"}) {
    const Config config = tiny.config(dtype, {"--train.steps=3", "--device.dtype=" + dtype});
    tiny.trainer(config)->run();
    const std::string three = config.run_dir + "/checkpoints/step_00000003";
    const auto scores = [&] {
      const Outcome scored =
          Shell("genesis_eval").run(three + " --data " + tiny.folder.file("a") + " --json -");
      REQUIRE(scored.err == "");
      return scored.out;
    };
    const std::string before = scores();
    CHECK(lacks(before, "\"loss\"") == "");
    make_format_1(three);
    CHECK(scores() == before);
    fs::remove(three + "/optimizer.safetensors");
    CHECK(scores() == before);
  }
}

TEST_CASE("a checkpoint of a format from the future is refused by name, and stands in nobody's way") {
  TinyRun tiny;
  const Config config =
      tiny.config("run", {"--train.steps=4", "--checkpoint.every=2", "--checkpoint.keep=1"});
  const std::string four = config.run_dir + "/checkpoints/step_00000004";
  {
    auto all = config;
    all.checkpoint.keep = 0;
    tiny.trainer(all)->run();
  }
  json root = json::parse(read_text_file(four + "/state.json"));
  root["format_version"] = 3;
  root["library_version"] = "9.8.7";
  root.erase("files");
  const std::string text = root.dump();
  root["xxh3"] = sum_of(std::as_bytes(std::span(text))).xxh3;
  replace_text_file(four + "/state.json", root.dump(2));
  const auto future = content_of(four);
  const std::string said = four + "/state.json: in format 3, written by genesis 9.8.7; this is genesis ";

  tiny.trainer(config)->run();  // from step 2
  CHECK(lacks(tiny.output.str(), "skipping the broken checkpoint " + four + ": " + said) == "");
  CHECK(content_of(four + ".unreadable") == future);
  CHECK(read_manifest(four).state.step == 4);

  fs::remove_all(four);
  fs::remove_all(config.run_dir + "/checkpoints/step_00000002");
  fs::rename(four + ".unreadable", four);
  const auto before = content_of(config.run_dir);
  const std::string refused = message_of([&] { tiny.trainer(config); });
  CHECK(lacks(refused, said) == "");
  CHECK(lacks(refused, "which reads formats 1 to 2") == "");
  CHECK(content_of(config.run_dir) == before);
}

TEST_CASE("docs/checkpoint.md's Python reads masters and moments, whole or in the slices of several ranks") {
  if (std::system("python3 --version >/dev/null 2>&1") != 0) {
    WARN("skipped: there is no python3");
    return;
  }
  TinyRun tiny;
  const Config config = tiny.config("run", {"--train.steps=3"});
  std::string trained;
  {
    const auto trainer = tiny.trainer(config);
    trainer->run();
    trained = state_bytes(trainer->storage());
  }
  const std::string three = config.run_dir + "/checkpoints/step_00000003";
  const std::string page = read_text_file(GENESIS_SOURCE_DIR "/docs/checkpoint.md"), begin = "```python\n";
  const size_t at = page.find(begin) + begin.size();
  tiny.folder.put("read.py", page.substr(at, page.find("```", at) - at) +
                                 "import sys\n"
                                 "state, tensors = read_checkpoint(sys.argv[1])\n"
                                 "print(state['state']['step'])\n"
                                 "for name, (shape, numbers) in sorted(tensors.items()):\n"
                                 "    print(name, *shape, numbers.tobytes().hex())\n");
  const auto read = [&] {
    const std::string to = tiny.folder.file("said");
    REQUIRE(std::system(("python3 " + tiny.folder.file("read.py") + " " + three + " >" + to).c_str()) == 0);
    return read_text_file(to);
  };

  std::map<std::string, std::string> lines;
  const CheckpointManifest whole = read_manifest(three);
  const CheckpointTensors held(three, whole, state_files(whole));
  std::vector<std::vector<float>> values;
  std::vector<TensorView> tensors;
  for (const auto& [name, t] : held.tensors()) {
    values.emplace_back(byte_size(t.dtype, t.shape, name) / sizeof(float));
    held.read_f32(t, values.back().data());
    tensors.push_back({name, t.dtype, t.shape, values.back().data()});
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.back().data());
    lines[name] = fmt::format("{} {} {:02x}\n", name, fmt::join(t.shape, " "),
                              fmt::join(bytes, bytes + values.back().size() * sizeof(float), ""));
  }
  REQUIRE(lines.size() == 42);
  std::string expected = "3\n";
  for (const auto& [name, line] : lines) expected += line;
  CHECK(read() == expected);

  // The same by three ranks, cut within rows.
  CheckpointManifest manifest = whole;
  manifest.files.erase(state_file_name(0, 1));
  manifest.origin.ranks = 2;
  for (int64_t rank = 0; rank < 2; ++rank) {
    std::vector<TensorSlice> slices = whole_slices(tensors);
    for (TensorSlice& s : slices) {
      const int64_t half = s.count / 2 - 1;
      s.begin = rank == 0 ? 0 : half;
      s.count = rank == 0 ? half : s.count - half;
      s.tensor.data = static_cast<const float*>(s.tensor.data) + s.begin;
    }
    manifest.files[state_file_name(rank, 2)] = write_state(three, rank, 2, slices);
  }
  write_manifest(three, manifest);
  CHECK(read() == expected);
  CHECK(state_bytes(tiny.trainer(config)->storage()) == trained);
}
