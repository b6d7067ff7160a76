// genesis_checkpoint, on a run's folder.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "apps/checkpoint/inspect.h"
#include "io/checkpoint_state.h"
#include "tests/apps/shell.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/folder_content.h"
#include "tests/support/message_of.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

constexpr const char* kWeights = "model-00001-of-00001.safetensors";
constexpr const char* kState = "state-rank-0-of-1.safetensors";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A run of six steps, with checkpoints at 2, 4 and 6.
struct Checkpoints {
  explicit Checkpoints(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--train.steps=6", "--checkpoint.every=2", "--checkpoint.keep=0"});
    tiny.trainer(tiny.config("run", more))->run();
  }
  std::string at(int step) const { return run + "/checkpoints/step_0000000" + std::to_string(step); }

  TinyRun tiny;
  std::string run = tiny.folder.file("run");
};

// As its config's `device.dtype: auto` is on this machine.
std::string stored_type(const std::string& checkpoint) {
  return read_checkpoint_state(checkpoint).dtype == "bf16" ? "BF16" : "F32";
}

// Another writer's change of one file, with its checksum made to fit.
void rewrite(const std::string& checkpoint, const std::string& name,
             const std::function<void(std::vector<TensorView>&)>& change) {
  const std::string path = checkpoint + "/" + name;
  CheckpointManifest manifest = read_manifest(checkpoint);
  {
    const SafetensorsFile file(path);
    std::vector<TensorView> tensors(file.tensors().begin(), file.tensors().end());
    change(tensors);
    HeldFile& held = manifest.files[name] = {write_safetensors(path + ".new", tensors), {}};
    for (const TensorSlice& s : whole_slices(tensors)) {
      held.tensors[s.tensor.name] = {s.tensor.dtype, s.tensor.shape, s.begin, s.count};
    }
  }
  fs::rename(path + ".new", path);
  write_manifest(checkpoint, manifest);
}

}  // namespace

TEST_CASE("genesis_checkpoint show tells what a checkpoint holds") {
  const Checkpoints c;
  const Shell shell("genesis_checkpoint");
  const std::string type = stored_type(c.at(4));
  const Outcome latest = shell.run("show " + c.run), four = shell.run("show --tensors " + c.at(4));
  CHECK(latest.code == 0);
  CHECK(has(latest.out, c.at(6) + "\n"));
  CHECK(has(latest.out, "step         6, of which 6 applied\n"));
  CHECK(has(latest.out, "samples      24\n"));
  CHECK(has(latest.out,
            "data         " + c.tiny.folder.file("b") + ": 280 tokens in 8 documents, content hash "));
  CHECK(has(latest.out, "file         model-00001-of-00001.safetensors: "));
  CHECK_FALSE(has(latest.out, "layers.1.attn.qkv.weight"));
  CHECK(has(four.out, "step         4, of which 4 applied\n"));
  CHECK(has(four.out, "    model.layers.1.self_attn.k_proj.weight " + type + " [16, 32]\n"));
  CHECK(has(four.out, "    master.layers.1.attn.qkv.weight F32 [64, 32]\n"));
  CHECK(has(four.out, "    layers.1.attn.qkv.weight.v F32 [64, 32]\n"));
  const Outcome none = shell.run("show " + c.tiny.folder.file("none"));
  CHECK(none.code == 1);
  CHECK(has(none.err, c.tiny.folder.file("none") + ": no such folder"));
}

TEST_CASE("genesis_checkpoint verify finds what is not as it was written, and names it") {
  const Checkpoints c(GENERATE(std::vector<std::string>{}, std::vector<std::string>{"--optim.kind=muon"}));
  const Shell shell("genesis_checkpoint");
  const auto before = content_of(c.run);
  const Outcome whole = shell.run("verify " + c.run);
  CHECK(whole.code == 0);
  CHECK(whole.out == c.at(2) + ": whole\n" + c.at(4) + ": whole\n" + c.at(6) + ": whole\n");
  CHECK(content_of(c.run) == before);

  std::fstream file(c.at(4) + "/state-rank-0-of-1.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end).put('x');
  file.close();
  fs::remove(c.at(6) + "/model-00001-of-00001.safetensors");
  fs::resize_file(c.at(6) + "/state-rank-0-of-1.safetensors", 1000);
  const Outcome broken = shell.run("verify " + c.run);
  CHECK(broken.code == 1);
  CHECK(has(broken.out, c.at(2) + ": whole\n"));
  CHECK(has(broken.out,
            c.at(4) + ": broken\n  " + c.at(4) + "/state-rank-0-of-1.safetensors: its checksum is not"));
  CHECK(has(broken.out, "  " + c.at(6) + "/model-00001-of-00001.safetensors: No such file"));
  CHECK(has(broken.out, "  " + c.at(6) + "/state-rank-0-of-1.safetensors: it has 1000 bytes"));
  CHECK(has(broken.err, "2 of 3 checkpoints are broken"));
}

TEST_CASE("tensors that the model or the optimizer does not have, or has otherwise, are named") {
  const Checkpoints c;
  const std::string four = c.at(4);
  const auto at = [](std::vector<TensorView>& tensors, const std::string& name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](const TensorView& t) { return t.name == name; });
  };
  rewrite(four, kWeights, [&](auto& tensors) {
    tensors.erase(at(tensors, "model.layers.0.input_layernorm.weight"));
    at(tensors, "model.norm.weight")->name = "model.layers.2.input_layernorm.weight";
  });
  rewrite(four, kState, [&](auto& tensors) {
    tensors.erase(at(tensors, "norm.weight.v"));
    at(tensors, "master.layers.1.attn_norm.weight")->shape = {4, 8};
    at(tensors, "master.norm.weight")->dtype = StoredDType::i32;
    at(tensors, "norm.weight.m")->name = "norm.weight.n";
  });
  const std::string weights = four + "/" + kWeights + ": '", state = four + "/" + kState + ": '";
  std::vector<std::string> problems = problems_of_checkpoint(four);
  std::sort(problems.begin(), problems.end());
  CHECK(
      problems ==
      std::vector<std::string>{
          weights + "model.layers.0.input_layernorm.weight' is missing",
          weights + "model.layers.2.input_layernorm.weight' is not in the model of its config",
          weights + "model.norm.weight' is missing",
          state + "master.layers.1.attn_norm.weight' is F32 [4, 8], and F32 [32] in the model of its config",
          state + "master.norm.weight' is I32 [32], and F32 [32] in the model of its config",
          state + "norm.weight.m' is missing", state + "norm.weight.n' is not in the model of its config",
          state + "norm.weight.v' is missing"});
}

TEST_CASE("genesis_checkpoint diff compares two checkpoints tensor by tensor") {
  const Checkpoints c;
  const Shell shell("genesis_checkpoint");
  const Outcome same = shell.run("diff " + c.at(6) + " " + c.run);
  CHECK(same.code == 0);
  CHECK(has(same.out, "weights: 20 of 20 tensors are equal in every bit\n"));
  CHECK(has(same.out, "state: 42 of 42 tensors are equal in every bit\n"));
  const Outcome steps = shell.run("diff " + c.at(2) + " " + c.at(4));
  CHECK(steps.code == 1);
  CHECK(has(steps.out, "step: 2 and 4\nsamples: 8 and 16\n"));
  CHECK(has(steps.out, "state: 0 of 42 tensors are equal in every bit\n  embed.weight.m: largest"));

  std::vector<float> moved(32, 1.f);
  fs::copy(c.at(6), c.tiny.folder.file("other"), fs::copy_options::recursive);
  for (const auto& [checkpoint, number] :
       {std::pair(c.at(6), 1.f), std::pair(c.tiny.folder.file("other"), 1.5f)}) {
    moved[3] = number;
    rewrite(checkpoint, kState, [&](auto& tensors) {
      for (TensorView& t : tensors) {
        if (t.name == "master.norm.weight") t.data = moved.data();
      }
    });
  }
  const CheckpointDifference one = diff_checkpoints(c.at(6), c.tiny.folder.file("other"));
  CHECK_FALSE(one.same);
  CHECK(has(
      one.text,
      "state: 41 of 42 tensors are equal in every bit\n"
      "  master.norm.weight: largest difference 0.5; norms 5.65685 and 5.76628, of the difference 0.5\n"));
}

TEST_CASE("genesis_checkpoint prune keeps what it is told to, and nothing while a trainer writes there") {
  Checkpoints c;
  const Shell shell("genesis_checkpoint");
  {
    const auto trainer = c.tiny.trainer(c.tiny.config("run", {"--train.steps=6"}));
    const Outcome refused = shell.run("prune " + c.run + " --keep 1");
    CHECK(refused.code == 1);
    CHECK(has(refused.err, "in use by another process"));
    CHECK(fs::exists(c.at(2)));
  }
  const auto before = content_of(c.run);
  CHECK(shell.run("prune " + c.run + " --keep 3").out.empty());
  CHECK(content_of(c.run) == before);
  const Outcome pruned = shell.run("prune " + c.run + " --keep 1");
  CHECK(pruned.code == 0);
  CHECK(pruned.out == "removed " + c.at(2) + "\nremoved " + c.at(4) + "\n");
  CHECK((!fs::exists(c.at(2)) && !fs::exists(c.at(4)) && fs::exists(c.at(6))));
  CHECK(shell.run("prune " + c.run + " --keep 0").code == 2);
  CHECK(shell.run("prune " + c.at(6) + " --keep 1").code == 1);
}
