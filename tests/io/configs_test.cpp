// The configs that come with the project, and the page about them.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "io/config.h"
#include "io/file.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

const std::filesystem::path kSource = GENESIS_SOURCE_DIR;

Config shipped(const std::string& name) { return load_config(kSource / "configs" / (name + ".yaml")); }

}  // namespace

TEST_CASE("every config of the project loads and prints so that it loads again") {
  std::set<std::string> names, run_dirs;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    const Config config = load_config(entry.path());
    CHECK(parse_config(print_config(config), "printed") == config);
    names.insert(entry.path().stem());
    CHECK(run_dirs.insert(config.run_dir).second);  // no two runs in one folder
  }
  const std::set<std::string> expected{"genesis_1b",        "genesis_1b_run1", "nano_1b",
                                       "nano_1b_recurrent", "quickstart",      "quickstart_recurrent"};
  CHECK(std::includes(names.begin(), names.end(), expected.begin(), expected.end()));
}

TEST_CASE("genesis_1b has the published settings") {
  const Config c = shipped("genesis_1b");
  CHECK(c.train.batch_size * c.data.sequence_length == 524288);
  CHECK(c.train.micro_batch == 4);
  CHECK(c.train.steps == 80000);
  CHECK(c.optim.lr == 1e-4);
  CHECK(c.optim.beta1 == 0.9);
  CHECK(c.optim.beta2 == 0.95);
  CHECK(c.optim.weight_decay == 0.1);
  CHECK(c.schedule.kind == Config::ScheduleKind::cosine);
  CHECK(c.schedule.min_lr == 1e-5);
  CHECK(c.schedule.warmup_steps == 1000);
}

TEST_CASE("a recurrent config is its dense one and a recurrence") {
  for (const std::string name : {"nano_1b", "quickstart"}) {
    Config::Model recurrent = shipped(name + "_recurrent").model;
    CHECK(recurrent.recurrence.core > 0);
    recurrent.recurrence = {};
    CHECK(recurrent == shipped(name).model);
  }
}

TEST_CASE("docs/config.md is what the table says") {
  // After a change to the table: genesis_train --help-config=markdown > docs/config.md
  CHECK(read_text_file(kSource / "docs" / "config.md") == config_markdown());
}

TEST_CASE("the help names every key that a printed config has") {
  const std::string help = config_help(), printed = print_config(Config{});
  CHECK(help.find("optim.lr: a number above 0; required") != std::string::npos);
  CHECK(help.find("optim.beta2: a number, at least 0, below 1; default 0.95") != std::string::npos);
  CHECK(help.find("train.memory_budget: bytes") != std::string::npos);
  size_t keys = 0;
  for (size_t at = help.find("; default "); at != std::string::npos; at = help.find("; default ", at + 1))
    ++keys;
  for (size_t at = help.find("; required"); at != std::string::npos; at = help.find("; required", at + 1))
    ++keys;
  const auto lines = static_cast<size_t>(std::count(printed.begin(), printed.end(), '\n'));
  constexpr size_t kSections = 10, kBlankLines = 9;
  CHECK(keys == lines - kSections - kBlankLines);
}
