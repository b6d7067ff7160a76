#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/device.h"
#include "apps/train/training_graph.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("every step's MFU is its share of the device's peak, whatever is computed again") {
  TinyRun tiny;
  for (const Config::Recompute recompute : {Config::Recompute::none, Config::Recompute::block}) {
    Config config = tiny.config("run" + std::to_string(int(recompute)));
    config.train.recompute = recompute;
    tiny.trainer(config)->run();
    const std::string out = tiny.output.str();
    CHECK(out.find("MFU is of the 1000 GFLOP/s") != std::string::npos);
    CHECK(out.find(" - ") == std::string::npos);

    config.train.recompute = Config::Recompute::none;
    const TrainingGraph plain =
        build_training_graph(config, {DType::f32, DeviceKind::cpu, size_t(1) << 40, &kCpuRates});
    const double a_token =
        model_flops(plain.graph) / double(config.train.micro_batch * config.data.sequence_length);
    std::istringstream lines(read_text_file(config.run_dir + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto r = nlohmann::json::parse(line);
      if (r["kind"] != "step") continue;
      REQUIRE(r.contains("mfu"));
      CHECK(r["mfu"].get<double>() ==
            Approx(a_token * r["tokens_per_second"].get<double>() / kTinyPeak).epsilon(1e-4));
    }
  }
}

TEST_CASE("a device's peak is measured once a run, and only for steps that are taken") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--train.steps=3"});
  tiny.trainer(config);
  tiny.trainer(config)->run([] { return true; });
  CHECK(tiny.peaks_measured == 0);
  tiny.trainer(config)->run();
  CHECK(tiny.peaks_measured == 1);
  tiny.trainer(config)->run();  // nothing left
  CHECK(tiny.peaks_measured == 1);

  const double peak = measure_peak_flops(*open_device({}), DType::f32);
  CHECK(peak > 1e8);  // in FLOP/s, and not in GFLOP/s
  CHECK(peak < 1e16);
}
