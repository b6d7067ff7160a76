#include "io/run_log.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "io/file.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

namespace {

struct Screen {
  std::ostringstream out;
  double now = 0.0;
  Terminal terminal(bool interactive) {
    return {&out, interactive, [] { return 80; }, [this] { return now; }};
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream in(out.str());
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
};

StepRecord record_of(int64_t step) {
  return {.step = step,
          .loss = 11.0 / static_cast<double>(step),
          .grad_norm = 1.25,
          .lr = 1e-4,
          .tokens_per_second = 19000.0,
          .mfu = 0.382,
          .memory_bytes = int64_t{3} << 29,
          .tokens = 4096 * step,
          .eta_seconds = 3661.0,
          .skipped = false};
}

std::vector<nlohmann::json> metrics_in(const TempFolder& folder) {
  std::vector<nlohmann::json> records;
  std::istringstream in(read_text_file(folder.file("metrics.jsonl")));
  for (std::string line; std::getline(in, line);) records.push_back(nlohmann::json::parse(line));
  return records;
}

std::vector<int64_t> steps_in(const TempFolder& folder) {
  std::vector<int64_t> steps;
  for (const auto& record : metrics_in(folder)) steps.push_back(record["step"]);
  return steps;
}

}  // namespace

TEST_CASE("a step is an aligned console line under a header") {
  const TempFolder folder;
  Screen screen;
  RunLog log({.run_dir = folder.path(), .total_steps = 100}, screen.terminal(false));
  log.step(record_of(1));
  StepRecord unknown = record_of(2);
  unknown.mfu.reset();
  log.step(unknown);
  log.evaluation({.step = 2, .recurrence = {}, .loss = 5.5, .bits_per_byte = 2.0125});
  log.evaluation({.step = 2, .recurrence = 4, .loss = 5.25, .bits_per_byte = {}});
  log.message("checkpoint written");
  log.finish();
  CHECK(screen.lines() == std::vector<std::string>{
                              "     step      loss grad norm        lr  tokens/s    MFU    memory     left",
                              "        1   11.0000    1.2500  1.00e-04     19.0k  38.2%  1.50 GiB   1h 01m",
                              "        2    5.5000    1.2500  1.00e-04     19.0k      -  1.50 GiB   1h 01m",
                              "        2    5.5000 validation: 2.0125 bits per byte",
                              "        2    5.2500 validation, 4 recurrent steps",
                              "checkpoint written",
                          });
}

TEST_CASE("the console shows every n-th step, the first, the last and the skipped ones") {
  const TempFolder folder;
  Screen screen;
  RunLog log({.run_dir = folder.path(), .total_steps = 25, .console_every = 10}, screen.terminal(false));
  for (int64_t step = 1; step <= 25; ++step) {
    StepRecord record = record_of(step);
    record.skipped = step == 7;
    log.step(record);
  }
  std::vector<std::string> first_words;
  for (const std::string& line : screen.lines()) {
    std::istringstream words(line);
    words >> first_words.emplace_back();
  }
  CHECK(first_words == std::vector<std::string>{"step", "1", "7", "10", "20", "25"});
  CHECK(screen.lines()[2].ends_with("  skipped: not finite"));
  CHECK(steps_in(folder).size() == 25);  // the file has them all
}

TEST_CASE("the header comes again where the first has scrolled away") {
  const TempFolder folder;
  Screen screen;
  RunLog log({.run_dir = folder.path(), .total_steps = 1000}, screen.terminal(false));
  for (int64_t step = 1; step <= 81; ++step) log.step(record_of(step));
  size_t headers = 0;
  for (const std::string& line : screen.lines()) headers += line.find("loss") != std::string::npos;
  CHECK(headers == 3);
}

TEST_CASE("on a terminal a bar stands under the lines") {
  const TempFolder folder;
  Screen screen;
  {
    RunLog log({.run_dir = folder.path(), .total_steps = 4, .done_steps = 2}, screen.terminal(true));
    screen.now += 1.0;
    log.step(record_of(3));
    CHECK(screen.out.str().find("\r\x1b[Ktrain  75% [") != std::string::npos);
    screen.now += 1.0;
    log.step(record_of(4));
    CHECK(screen.lines().back().find("\r\x1b[Ktrain 100% [") != std::string::npos);
    log.finish();
  }
  CHECK(screen.out.str().ends_with("\r\x1b[K"));
}

TEST_CASE(
    "metrics.jsonl has one object a record; what is not finite is null, what is not known is not there") {
  const TempFolder folder;
  Screen screen;
  RunLog log({.run_dir = folder.path(), .total_steps = 10}, screen.terminal(false));
  log.step(record_of(1));
  StepRecord bad = record_of(2);
  bad.loss = std::numeric_limits<double>::quiet_NaN();
  bad.grad_norm = std::numeric_limits<double>::infinity();
  bad.mfu.reset();
  bad.skipped = true;
  log.step(bad);
  log.evaluation({.step = 2, .recurrence = 2, .loss = 3.0, .bits_per_byte = 1.5});
  log.evaluation({.step = 2, .recurrence = {}, .loss = 3.0, .bits_per_byte = {}});
  const auto records = metrics_in(folder);  // read while the log is open: each record was flushed
  REQUIRE(records.size() == 4);
  CHECK(records[0] == nlohmann::json{{"kind", "step"},
                                     {"step", 1},
                                     {"tokens", 4096},
                                     {"loss", 11.0},
                                     {"grad_norm", 1.25},
                                     {"lr", 1e-4},
                                     {"skipped", false},
                                     {"tokens_per_second", 19000.0},
                                     {"mfu", 0.382},
                                     {"memory_bytes", int64_t{3} << 29}});
  CHECK(records[1]["loss"].is_null());
  CHECK(records[1]["grad_norm"].is_null());
  CHECK(records[1]["skipped"] == true);
  CHECK(!records[1].contains("mfu"));
  CHECK(records[2] ==
        nlohmann::json{
            {"kind", "eval"}, {"step", 2}, {"recurrence", 2}, {"loss", 3.0}, {"bits_per_byte", 1.5}});
  CHECK(records[3] == nlohmann::json{{"kind", "eval"}, {"step", 2}, {"loss", 3.0}});
}

TEST_CASE("a resumed run has no step twice, and loses none up to where it resumes") {
  const TempFolder folder;
  Screen screen;
  {
    RunLog log({.run_dir = folder.path(), .total_steps = 9}, screen.terminal(false));
    for (int64_t step = 1; step <= 7; ++step) log.step(record_of(step));
    log.evaluation({.step = 7, .recurrence = {}, .loss = 3.0, .bits_per_byte = {}});
  }
  std::ofstream(folder.file("metrics.jsonl"), std::ios::app)
      << R"({"kind":"step","st)";  // died while writing
  {
    RunLog log({.run_dir = folder.path(), .total_steps = 9, .done_steps = 7}, screen.terminal(false));
    CHECK(steps_in(folder) == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 7});
    log.step(record_of(8));
  }
  {
    RunLog log({.run_dir = folder.path(), .total_steps = 9, .done_steps = 5}, screen.terminal(false));
    for (int64_t step = 6; step <= 9; ++step) log.step(record_of(step));
  }
  CHECK(steps_in(folder) == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("a metrics.jsonl of something else is not cut") {
  const TempFolder folder;
  Screen screen;
  const std::string other = "{\"step\": 1}\n{\"loss\": 2}\nnotes\n";
  replace_text_file(folder.file("metrics.jsonl"), other);
  const std::string message = message_of(
      [&] { RunLog({.run_dir = folder.path(), .total_steps = 9, .done_steps = 5}, screen.terminal(false)); });
  CHECK(message ==
        folder.file("metrics.jsonl") + ":2: expected a record with a step; move the file away to go on");
  CHECK(read_text_file(folder.file("metrics.jsonl")) == other);
}

TEST_CASE("files that are not asked for are not written") {
  const TempFolder folder;
  Screen screen;
  RunLog log({.run_dir = folder.path(), .total_steps = 9, .metrics = false, .tensorboard = false},
             screen.terminal(false));
  log.step(record_of(1));
  log.evaluation({.step = 1, .recurrence = {}, .loss = 3.0, .bits_per_byte = {}});
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a log that cannot be written is an error that names the file") {
  const TempFolder folder;
  Screen screen;
  const std::string missing = folder.file("missing");
  const auto open_log = [&] {
    RunLog({.run_dir = missing, .total_steps = 9, .tensorboard = false}, screen.terminal(false));
  };
  CHECK(message_of(open_log).find(missing + "/metrics.jsonl: cannot write: No such file") == 0);
}
