#include <set>

#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "model/parameters.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/folder_content.h"
#include "tests/support/message_of.h"

using namespace genesis;

TEST_CASE(
    "a run goes on with the optimizer that it began with, whose moments are named as docs/checkpoint.md "
    "says") {
  TinyRun tiny;
  const std::vector<std::string> two{"--train.steps=2", "--schedule.warmup_steps=1"};
  const auto by = [&](const char* optimizer) {
    std::vector<std::string> how = two;
    how.push_back(std::string("--optim.kind=") + optimizer);
    return tiny.config(std::string("by_") + optimizer, how);
  };
  const std::pair<const char*, const char*> both[] = {{"adamw", "muon"}, {"muon", "adamw"}};
  for (const auto& [optimizer, other] : both) {
    const Config config = by(optimizer);
    tiny.trainer(config)->run();
    std::set<std::string> expected, found;
    for (const Parameter& p : parameters(config.model)) {
      expected.insert("master." + p.name);
      expected.insert(p.name + ".m");
      const bool is_muons = std::string(optimizer) == "muon" && !layer_matrices(p).empty();
      if (!is_muons) expected.insert(p.name + ".v");
    }
    const auto checkpoint = latest_checkpoint(config.run_dir, [](const std::string&) {});
    const SafetensorsFile file(*checkpoint + "/state-rank-0-of-1.safetensors");
    for (const auto& tensor : file.tensors()) found.insert(tensor.name);
    CHECK(found == expected);

    const auto before = content_of(config.run_dir);
    Config changed = by(other);
    changed.run_dir = config.run_dir;
    const std::string refusal = message_of([&] { tiny.trainer(changed); });
    INFO(refusal);
    CHECK(refusal.find(std::string("optim.kind was ") + optimizer + ", is " + other) != std::string::npos);
    CHECK(content_of(config.run_dir) == before);
  }
}
