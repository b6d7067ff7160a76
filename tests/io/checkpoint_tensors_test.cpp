// The tensor files of a checkpoint: parameters over several files, and slices of ranks.
#include "io/checkpoint_tensors.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "io/file.h"
#include "kernels/common/bf16.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

std::vector<float> numbers(size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<float> read(const CheckpointTensors& held, const std::string& name) {
  const CheckpointTensors::Tensor& t = held.tensors().at(name);
  std::vector<float> values(byte_size(t.dtype, t.shape, name) / size_of(t.dtype), -1.f);
  held.read_f32(t, values.data());
  return values;
}

// What some ranks hold of master.w [3, 4] and w.m [5], written as they write it.
struct Ranks {
  struct Part {
    std::string name;
    int64_t begin = 0, count = 0;
    std::vector<int64_t> shape{};  // empty: as it is
  };

  explicit Ranks(const std::vector<std::vector<Part>>& ranks) {
    fs::create_directory(path);
    const TensorView weight{"model.w", StoredDType::f32, {3, 4}, w.data()};
    write_weights(path, {&weight, 1}, manifest.files);
    manifest.origin.ranks = int64_t(ranks.size());
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      std::vector<TensorSlice> slices;
      for (const Part& p : ranks[rank]) {
        const bool is_w = p.name == "master.w";
        const std::vector<int64_t> shape = is_w ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{5};
        slices.push_back(
            {{p.name, StoredDType::f32, p.shape.empty() ? shape : p.shape, (is_w ? w : m).data() + p.begin},
             p.begin,
             p.count});
      }
      manifest.files[state_file_name(int64_t(rank), manifest.origin.ranks)] =
          write_state(path, int64_t(rank), manifest.origin.ranks, slices);
    }
  }

  // state.json as it is now; then what a reader says.
  std::string refusal() const {
    write_manifest(path, manifest);
    return message_of([&] {
      const CheckpointManifest read = read_manifest(path);
      CheckpointTensors(path, read, state_files(read));
    });
  }
  std::string file(int64_t rank) const { return path + "/" + state_file_name(rank, manifest.origin.ranks); }

  TempFolder folder;
  std::string path = folder.file("step_00000001");
  std::vector<float> w = numbers(12, 1), m = numbers(5, 100);
  CheckpointManifest manifest;
};

}  // namespace

TEST_CASE(
    "parameters are divided over files where one would be too large, and the index tells which has which") {
  TempFolder folder;
  const std::vector<float> values = numbers(60, 1);
  const std::vector<bf16> half{bf16(1.5f), bf16(-2.f)};
  const std::vector<TensorView> weights{{"z", StoredDType::f32, {2, 5}, values.data()},
                                        {"b", StoredDType::bf16, {2}, half.data()},
                                        {"a", StoredDType::f32, {10}, values.data() + 10},
                                        {"large", StoredDType::f32, {30}, values.data() + 20},
                                        {"last", StoredDType::f32, {1}, values.data() + 50}};
  CheckpointManifest manifest;
  const auto write = [&](uint64_t most_bytes) {
    manifest.files.clear();
    write_weights(folder.path(), weights, manifest.files, most_bytes);
    return weight_files(manifest).files;
  };
  const auto check_content = [&] {
    const CheckpointTensors held(folder.path(), manifest, weight_files(manifest));
    CHECK(held.tensors().size() == weights.size());
    CHECK(read(held, "z") == numbers(10, 1));
    CHECK(read(held, "a") == numbers(10, 11));
    CHECK(read(held, "large") == numbers(30, 21));
    CHECK(read(held, "last") == numbers(1, 51));
    CHECK(read(held, "b") == std::vector<float>{1.5f, -2.f});
  };
  CHECK(write(uint64_t(1) << 30) == std::vector<std::string>{"model-00001-of-00001.safetensors"});
  check_content();

  // 44 bytes are z and b; one more would not go in. A tensor of 120 bytes has a file of its own.
  const std::vector<std::string> files = write(44);
  CHECK(files ==
        std::vector<std::string>{"model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
                                 "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors"});
  check_content();
  const auto index = nlohmann::json::parse(read_text_file(folder.file("model.safetensors.index.json")));
  CHECK(index ==
        nlohmann::json{
            {"metadata", {{"total_size", 208}}},
            {"weight_map",
             {{"z", files[0]}, {"b", files[0]}, {"a", files[1]}, {"large", files[2]}, {"last", files[3]}}}});
  for (const std::string& name : files) {
    CHECK(manifest.files.at(name).sum.bytes == fs::file_size(folder.file(name)));
  }
}

TEST_CASE("the slices of any number of ranks are put together to whole tensors") {
  const std::vector<std::vector<std::vector<Ranks::Part>>> ways{
      {{{"master.w", 0, 12}, {"w.m", 0, 5}}},
      {{{"master.w", 0, 12}}, {{"w.m", 0, 5}}},
      // Not in the order of the ranks, not at ends of rows, and a rank that holds nothing of one.
      {{{"master.w", 7, 5}, {"w.m", 0, 1}}, {{"w.m", 1, 4}}, {{"master.w", 0, 7}}},
  };
  for (const auto& way : ways) {
    const Ranks ranks(way);
    REQUIRE(ranks.refusal().empty());
    const CheckpointManifest manifest = read_manifest(ranks.path);
    CHECK(manifest.files == ranks.manifest.files);
    CHECK(manifest.origin == ranks.manifest.origin);
    const CheckpointTensors held(ranks.path, manifest, state_files(manifest));
    CHECK(read(held, "master.w") == ranks.w);
    CHECK(read(held, "w.m") == ranks.m);
    std::vector<float> w(12), m(5);
    const NamedTensor master{"w", StoredDType::f32, {3, 4}, w.data()},
        moment{"w.m", StoredDType::f32, {5}, m.data()};
    load_checkpoint(ranks.path, {&master, 1}, {&moment, 1});
    CHECK(w == ranks.w);
    CHECK(m == ranks.m);
  }
}

TEST_CASE("slices that do not make up their tensor are refused, by name") {
  const std::string all = "/state-rank-*.safetensors: ";
  const auto refused = [](const Ranks& ranks, const std::string& part) {
    CHECK(lacks(ranks.refusal(), part) == "");
  };
  refused(Ranks({{{"master.w", 0, 5}}, {{"master.w", 6, 6}}}),
          all + "the slices of 'master.w' leave a hole: one ends at element 5, the next begins at 6");
  refused(Ranks({{{"master.w", 0, 7}}, {{"master.w", 6, 6}}}),
          all + "the slices of 'master.w' overlap: one ends at element 7, the next begins at 6");
  refused(Ranks({{{"master.w", 0, 12}}, {{"master.w", 0, 12}}}), "the slices of 'master.w' overlap");
  refused(Ranks({{{"master.w", 1, 6}}, {{"master.w", 7, 5}}}),
          "the slices of 'master.w' leave a hole: one ends at element 0, the next begins at 1");
  refused(Ranks({{{"master.w", 0, 6}}, {{"master.w", 6, 5}}}),
          "the slices of 'master.w' end at element 11 of 12");
  {
    const Ranks ranks({{{"master.w", 0, 6}}, {{"master.w", 6, 6, {12}}}});
    refused(ranks,
            ranks.file(1) + ": 'master.w' is a slice of F32 [12], and one of F32 [3, 4] in another file");
  }
}

TEST_CASE("what state.json says of slices and files has to be what is there") {
  const auto changed = [](const std::function<void(CheckpointManifest&)>& change, const std::string& part) {
    Ranks ranks({{{"master.w", 0, 6}, {"w.m", 0, 5}}, {{"master.w", 6, 6}}});
    change(ranks.manifest);
    CHECK(lacks(ranks.refusal(), part) == "");
  };
  const std::string first = "state-rank-0-of-2.safetensors", second = "state-rank-1-of-2.safetensors";
  changed([&](auto& m) { m.files[second].tensors["master.w"].begin = 7; },
          second + ": the tensor 'master.w': elements 7 to 13 of 12");
  changed([&](auto& m) { m.files[second].tensors["master.w"].begin = std::numeric_limits<int64_t>::max(); },
          "the tensor 'master.w': elements 9223372036854775807 to ");
  changed([&](auto& m) { m.files[second].tensors["master.w"].count = 5; },
          second + ": 'master.w' is F32 [6], and F32 [5] by state.json");
  changed([&](auto& m) { m.files[first].tensors["w.m"].dtype = StoredDType::i32; },
          first + ": 'w.m' is F32 [5], and I32 [5] by state.json");
  changed([&](auto& m) { m.files[first].tensors.erase("w.m"); },
          first + ": it holds 2 tensors, and state.json names 1");
  changed(
      [&](auto& m) {
        m.files[second].tensors["w.v"] = m.files[second].tensors["master.w"];
        m.files[second].tensors.erase("master.w");
      },
      second + ": 'master.w' is not in state.json");
  changed([&](auto& m) { m.files.erase(second); },
          "state.json: written by 2 ranks, and it names 1 files of their state");
  changed(
      [&](auto& m) {
        m.files["state-rank-2-of-2.safetensors"] = m.files[second];
        m.files.erase(second);
      },
      "state.json: it does not name " + second);
  changed([&](auto& m) { m.origin.ranks = std::numeric_limits<int64_t>::max(); },
          "written by 9223372036854775807 ranks, and it names 2 files");
  changed([&](auto& m) { m.files.erase("model-00001-of-00001.safetensors"); },
          "it names no file of parameters");
  for (const std::string name : {"../elsewhere", "/etc/passwd", "a/b", ".", "..", "", "state.json"}) {
    changed([&](auto& m) { m.files[name] = m.files[first]; },
            fmt::format("'{}' is no name of a file in this folder", name));
  }
}

TEST_CASE("a rank's file that is not there, or is not what was written, makes a checkpoint broken") {
  const Ranks ranks({{{"master.w", 0, 6}, {"w.m", 0, 5}}, {{"master.w", 6, 6}}});
  REQUIRE(ranks.refusal().empty());
  const std::string run = ranks.folder.path().string();
  fs::create_directory(run + "/checkpoints");
  fs::rename(ranks.path, run + "/checkpoints/step_00000001");
  const std::string two = run + "/checkpoints/step_00000001/state-rank-1-of-2.safetensors";
  const auto latest = [&] { return message_of([&] { latest_checkpoint(run, [](const std::string&) {}); }); };
  CHECK(latest().empty());
  const std::string bytes = read_text_file(two);
  fs::remove(two);
  CHECK(lacks(latest(), two + ": No such file") == "");
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = char(flipped[at] ^ 0x10);
    replace_text_file(two, flipped);
    REQUIRE(lacks(latest(), two + ": its checksum is not the one it was written with") == "");
  }
  replace_text_file(two, bytes.substr(0, bytes.size() - 4));
  CHECK(lacks(latest(), two + ": it has ") == "");
}
