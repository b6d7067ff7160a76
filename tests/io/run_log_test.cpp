#include "io/run_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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
  int width = 80;
  Terminal terminal(bool interactive) {
    return {&out, interactive, [this] { return width; }, [this] { return now; }};
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

TEST_CASE("a damaged line of metrics.jsonl is named, the file kept aside, and the rest goes on") {
  const auto record = [](int64_t step) { return R"({"kind":"step","step":)" + std::to_string(step) + "}\n"; };
  const std::string huge = R"({"step":2,"text":")" + std::string(2 << 20, 'x') + "\"}";
  const std::vector<std::string> kinds{
      R"({"kind":"step","st)",  // torn, and another record begun behind it
      std::string(100, '\0'),   // what a power cut leaves of a page
      std::string(8, '\0') + R"({"step": 2})",
      "notes",
      R"({"loss": 2})",  // no step
      R"({"step": "2"})",
      R"({"step": 2.5})",
      R"({"step": 2, "step": 3})",
      "[2]",
      "",
      "\xff\xfe",
      std::string(3000, '['),
      huge,
  };
  for (const std::string& damaged : kinds) {
    const TempFolder folder;
    Screen screen;
    const std::string before =
        record(1) + damaged + "\n" + record(2) + record(3) + damaged + "\n" + damaged + "\n" + record(4);
    const std::string path = folder.put("metrics.jsonl", before + record(9) + "{\"step\": 10");
    INFO(damaged.substr(0, 100));
    RunLog log({.run_dir = folder.path(), .total_steps = 9, .done_steps = 4}, screen.terminal(false));
    CHECK(read_text_file(path) == record(1) + record(2) + record(3) + record(4));
    CHECK(read_text_file(path + ".damaged") == before + record(9) + "{\"step\": 10");
    const std::string said = screen.out.str();
    for (const int line : {2, 5, 6}) {
      CHECK(said.find("dropping " + path + ":" + std::to_string(line) + ": ") != std::string::npos);
    }
    CHECK(said.find(path + ".damaged is the file as it was") != std::string::npos);
    CHECK(std::count(said.begin(), said.end(), '\n') == 4);
    for (const char c : said) CHECK((c == '\n' || static_cast<unsigned char>(c) >= ' '));
    log.step(record_of(5));
    CHECK(steps_in(folder) == std::vector<int64_t>{1, 2, 3, 4, 5});
  }
}

TEST_CASE("each copy of a damaged metrics.jsonl is kept, and of many damaged lines the first are named") {
  const TempFolder folder;
  Screen screen;
  for (const std::string name :
       {"metrics.jsonl.damaged", "metrics.jsonl.damaged.2", "metrics.jsonl.damaged.3"}) {
    std::string other;
    for (int i = 0; i < 1000; ++i) other += name + "\n";
    folder.put("metrics.jsonl", other);
    RunLog({.run_dir = folder.path(), .total_steps = 9, .done_steps = 4}, screen.terminal(false));
    CHECK(read_text_file(folder.file(name)) == other);
    CHECK(std::filesystem::file_size(folder.file("metrics.jsonl")) == 0);
  }
  CHECK(screen.lines().size() == 3 * 12);
}

TEST_CASE("a metrics.jsonl that is no file of this run's to write is an error that says so") {
  Screen screen;
  const auto refusal = [&](const TempFolder& folder) {
    return message_of([&] {
      RunLog({.run_dir = folder.path(), .total_steps = 9, .done_steps = 4}, screen.terminal(false));
    });
  };
  const TempFolder folder, pipe, link;
  const std::string path = folder.file("metrics.jsonl");
  std::filesystem::create_directory(path);
  CHECK(refusal(folder) == path + ": not a regular file; move it away to go on");
  REQUIRE(mkfifo(pipe.file("metrics.jsonl").c_str(), 0666) == 0);  // opening it would wait for ever
  CHECK(refusal(pipe).find("not a regular file") != std::string::npos);
  std::filesystem::create_symlink("/dev/full", link.file("metrics.jsonl"));
  CHECK(refusal(link).find("not a regular file") != std::string::npos);
  if (geteuid() == 0) return;  // may read and write everything
  const TempFolder closed;
  closed.put("metrics.jsonl", "{\"step\":1}\n");
  for (const auto mode : {std::filesystem::perms::none, std::filesystem::perms::owner_read}) {
    std::filesystem::permissions(closed.file("metrics.jsonl"), mode);
    CHECK(refusal(closed).find("metrics.jsonl") != std::string::npos);
    CHECK(refusal(closed).find("Permission denied") != std::string::npos);
  }
}

TEST_CASE("which evaluations of the step that a run goes on from are there") {
  const TempFolder folder;
  Screen screen;
  const auto opened = [&](int64_t done) {
    return RunLog({.run_dir = folder.path(), .total_steps = 9, .done_steps = done}, screen.terminal(false))
        .evaluated();
  };
  using Found = std::vector<std::optional<int64_t>>;
  {
    RunLog log({.run_dir = folder.path(), .total_steps = 9}, screen.terminal(false));
    CHECK(log.evaluated().empty());
    for (int64_t step = 1; step <= 6; ++step) {
      log.step(record_of(step));
      if (step % 2 != 0) continue;
      log.evaluation({.step = step, .recurrence = {}, .loss = 3.0, .bits_per_byte = {}});
      if (step == 4) log.evaluation({.step = step, .recurrence = 3, .loss = 3.0, .bits_per_byte = {}});
    }
  }
  CHECK(opened(6) == Found{std::nullopt});
  CHECK(opened(5).empty());
  CHECK(opened(4) == Found{std::nullopt, 3});
  CHECK(steps_in(folder) == std::vector<int64_t>{1, 2, 2, 3, 4, 4, 4});
}

TEST_CASE("no line of the table is wider than the terminal, and the columns stand under their titles") {
  const TempFolder folder;
  const std::string erase = "\r\x1b[K";
  for (int width = 24; width <= 100; ++width) {
    Screen screen;
    screen.width = width;
    RunLog log({.run_dir = folder.path(), .total_steps = 99, .metrics = false, .tensorboard = false},
               screen.terminal(true));
    StepRecord skipped = record_of(2);
    skipped.skipped = true;
    log.step(record_of(1));
    log.step(skipped);
    log.evaluation({.step = 2, .recurrence = {}, .loss = 5.5, .bits_per_byte = 2.0125});
    log.evaluation({.step = 2, .recurrence = 4, .loss = 5.25, .bits_per_byte = 2.0125});
    screen.width = 40;  // resized while it runs
    log.step(record_of(3));
    log.step(record_of(4));
    log.finish();
    INFO(width << "\n" << screen.out.str());
    std::vector<std::string> lines = screen.lines();
    int narrow = 0;
    for (std::string& line : lines) {
      while (line.find(erase) != std::string::npos) line = line.substr(line.find(erase) + erase.size());
      narrow += line.find("skipped") != std::string::npos;
    }
    CHECK(narrow == 1);
    CHECK(lines.back().empty());  // the bar is gone
    lines.pop_back();
    for (size_t i = 0; i < lines.size(); ++i) {
      CHECK(int(lines[i].size()) < (i + 3 < lines.size() ? width : std::max(width, 40)));
    }
    CHECK(lines.at(0).starts_with("     step      loss"));
    CHECK(lines.at(1).size() == lines.at(0).size());
    CHECK((lines.at(0).size() == 75) == (width >= 76));
    // The new width's header, unless the same columns fit.
    const auto headers = std::count_if(lines.begin(), lines.end(),
                                       [](const std::string& line) { return line.starts_with("     step"); });
    CHECK(headers == (lines.at(0).size() != 38 ? 2 : 1));
    for (size_t i = lines.size() - 2; i < lines.size(); ++i) CHECK(lines[i].size() == 38);
  }
}

TEST_CASE("a sentence is broken between words where the terminal is narrower, and nowhere else") {
  const TempFolder folder;
  const std::string sentence =
      "3.4M parameters, bf16 on 2 threads (device.threads is 9), 1.02k tokens a step, 121 MiB of memory";
  const std::string path = "going on from a/folder/of/a/run/with/a/long/name (step 12)";
  for (const bool interactive : {true, false}) {
    for (int width = 24; width <= 100; ++width) {
      Screen screen;
      screen.width = width;
      const TempFolder run;
      RunLog log({.run_dir = run.path(), .total_steps = 9, .metrics = false, .tensorboard = false},
                 screen.terminal(interactive));
      log.message(sentence);
      log.message(path);
      log.finish();
      INFO(width << "\n" << screen.out.str());
      std::string all;
      for (std::string line : screen.lines()) {
        for (size_t at; (at = line.rfind("\r\x1b[K")) != std::string::npos;) line = line.substr(at + 4);
        if (line.empty()) continue;
        const bool one_word = line.find(' ', 2) == std::string::npos;
        CHECK((int(line.size()) < width || one_word || !interactive));
        all += (line.starts_with("  ") ? line.substr(1) : line.starts_with("going") ? "\n" + line : line);
      }
      CHECK(all == sentence + "\n" + path);
      if (!interactive) CHECK(screen.out.str() == all + "\n");
    }
  }
}

TEST_CASE(
    "validation has a bar of its own in the training bar's place, or plain lines where nobody watches") {
  const TempFolder folder;
  const EvalRecord record{.step = 1, .recurrence = {}, .loss = 3.0, .bits_per_byte = {}};
  const std::string erase = "\r\x1b[K";
  const auto validate = [&](Screen& screen, bool interactive) {
    RunLog log({.run_dir = folder.path(), .total_steps = 9, .metrics = false, .tensorboard = false},
               screen.terminal(interactive));
    screen.now += 1.0;
    log.step(record_of(1));
    screen.out.str("");
    log.begin_validation(4);
    for (int i = 0; i < 4; ++i) {
      screen.now += 3.0;
      log.validated_batch();
    }
    log.evaluation(record);
    log.end_validation();
    screen.now += 1.0;
    log.message("then");
    return screen.out.str();
  };
  Screen watched, plain;
  const std::string bars = validate(watched, true);
  CHECK(bars.starts_with(erase + erase + "validation  25% ["));
  CHECK(bars.find("1 of 4 batches, 0.33/s, 9s left") != std::string::npos);
  CHECK(bars.find(erase + "        1    3.0000 validation\n" + erase + "validation 100%") !=
        std::string::npos);
  CHECK(bars.find(erase + "then\n" + erase + "train  11%") != std::string::npos);
  CHECK(validate(plain, false) ==
        "validation:  50%, 2 of 4 batches, 0.33/s, 6s left\n"
        "validation: 100%, 4 of 4 batches, 0.33/s, 0s left\n"
        "        1    3.0000 validation\n"
        "then\n");
}

TEST_CASE(
    "the bar's time left is the one of the table: a slow first step or a validation does not spoil it") {
  const TempFolder folder;
  Screen screen;
  RunLog log({.run_dir = folder.path(), .total_steps = 101, .metrics = false, .tensorboard = false},
             screen.terminal(true));
  screen.now += 1000.0;  // for one step
  StepRecord record = record_of(1);
  record.eta_seconds = 200.0;  // 2 seconds each
  log.step(record);
  CHECK(screen.out.str().find("3m 20s left") != std::string::npos);
}

TEST_CASE("a console that takes no more is an error") {
  const TempFolder folder;
  Screen screen;
  RunLog log({.run_dir = folder.path(), .total_steps = 9}, screen.terminal(false));
  log.step(record_of(1));
  screen.out.setstate(std::ios::badbit);
  CHECK(message_of([&] { log.step(record_of(2)); }).find("the console (standard output) cannot be written") ==
        0);
  CHECK(steps_in(folder) == std::vector<int64_t>{1, 2});  // the files have it
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
