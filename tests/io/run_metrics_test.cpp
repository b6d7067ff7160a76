#include "io/run_metrics.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

namespace {

RunLog log_of(const TempFolder& folder, int64_t done, std::ostringstream& out) {
  const Terminal terminal{&out, false, [] { return 80; }, [] { return 0.0; }};
  return RunLog(
      {.run_dir = folder.path().string(), .total_steps = 100, .done_steps = done, .tensorboard = false},
      terminal);
}

StepRecord step(int64_t n, double loss) {
  StepRecord r;
  r.step = n;
  r.loss = loss;
  r.grad_norm = 0.5;
  r.lr = 1e-3;
  r.tokens_per_second = 1234;
  r.memory_bytes = 1 << 20;
  r.tokens = 64 * n;
  return r;
}

void append(const TempFolder& folder, const std::string& text) {
  std::ofstream(folder.file("metrics.jsonl"), std::ios::app) << text;
}

}  // namespace

TEST_CASE("metrics are read back as they were logged, as the run goes on and when it is resumed") {
  TempFolder folder;
  std::ostringstream out;
  MetricsReader reader(folder.file("metrics.jsonl"));
  CHECK_FALSE(reader.update());  // not begun

  {
    RunLog log = log_of(folder, 0, out);
    StepRecord bad = step(1, std::numeric_limits<double>::quiet_NaN());
    bad.skipped = true;
    log.step(bad);
    log.step(step(2, 3.5));
    log.evaluation({2, 4, 3.25, 1.5});
    log.evaluation({2, std::nullopt, 3.0, std::nullopt});
    CHECK(reader.update());
    CHECK_FALSE(reader.update());
    const RunMetrics& m = reader.metrics();
    REQUIRE(m.steps.size() == 2);
    CHECK(std::isnan(m.steps[0].loss));
    CHECK(m.steps[0].skipped);
    CHECK(m.steps[1].loss == 3.5);
    CHECK(m.steps[1].tokens == 128);
    CHECK(m.steps[1].lr == 1e-3);
    CHECK(m.steps[1].memory_bytes == 1 << 20);
    CHECK_FALSE(m.steps[1].mfu.has_value());
    REQUIRE(m.evaluations.size() == 2);
    CHECK(m.evaluations[0].recurrence == 4);
    CHECK(m.evaluations[0].bits_per_byte == 1.5);
    CHECK_FALSE(m.evaluations[1].recurrence.has_value());
    log.step(step(3, 3.25));
    CHECK(reader.update());
    CHECK(m.steps.size() == 3);
  }
  {
    // Resumed from step 2: step 3 is cut off and written anew, and more, so that the file is longer than before.
    RunLog log = log_of(folder, 2, out);
    for (int64_t n = 3; n <= 6; ++n) log.step(step(n, 2.0));
  }
  CHECK(reader.update());
  REQUIRE(reader.metrics().steps.size() == 6);
  CHECK(reader.metrics().steps[2].loss == 2.0);
  CHECK(reader.metrics().evaluations.size() == 2);
}

TEST_CASE("a metrics line that is half there waits, one that is no record is passed over and told") {
  TempFolder folder;
  MetricsReader reader(folder.file("metrics.jsonl"));
  const std::string good =
      R"({"kind":"step","step":1,"tokens":64,"loss":3.0,"grad_norm":1.0,"lr":0.1,"skipped":false,)"
      R"("tokens_per_second":10.0,"memory_bytes":1})";
  append(folder, good.substr(0, 20));
  CHECK_FALSE(reader.update());
  append(folder, good.substr(20) + "\n");
  CHECK(reader.update());
  CHECK(reader.metrics().steps.size() == 1);

  append(folder, std::string(3, '\0') +
                     "\n{\"kind\":\"step\",\"step\":\"two\"}\n{\"kind\":\"later\",\"step\":2}\n" + good +
                     "\n");
  CHECK(reader.update());
  CHECK(reader.metrics().steps.size() == 2);
  CHECK(reader.metrics().passed_over == 2);  // a kind of a later version is none of them
  CHECK(lacks(reader.metrics().first_passed_over, "metrics.jsonl:2:") == "");

  std::filesystem::remove(folder.file("metrics.jsonl"));
  CHECK(reader.update());
  CHECK(reader.metrics().steps.empty());
  std::filesystem::create_directory(folder.file("metrics.jsonl"));
  CHECK(message_of([&] { reader.update(); }) != "");
}
