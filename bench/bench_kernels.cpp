// bench_kernels: every kernel at the shapes of training, against a large copy and a large matrix product
// measured in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/main.h"
#include "bench/kernels/layers_of.h"
#include "bench/kernels/register.h"
#include "bench/kernels/roofline.h"
#include "kernels/common/error.h"

using namespace genesis;

namespace {

using Fractions = std::map<std::string, double>;

// A kernel may lose this much of its fraction before --check says so.
constexpr double kAllowedLoss = 0.05;

void save(const std::string& path, const Fractions& fractions) {
  std::ofstream file(path);
  file << nlohmann::json(fractions).dump(2) << "\n";
  file.close();
  check(bool(file), "cannot write " + path);
}

// A line a kernel; keeps each one's best fraction over the repetitions, also in the file `output` at once: a
// run that is stopped has saved what it measured.
class Reporter : public benchmark::BenchmarkReporter {
 public:
  explicit Reporter(std::string output) : output_(std::move(output)) {}

  bool ReportContext(const Context& context) override {
    PrintBasicContext(&std::cerr, context);
    fmt::print("{:<52}{:>12}{:>14}{:>9}{:>12}\n", "kernel", "time", "rate", "of roof", "tokens/s");
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const auto found = run.counters.find(bench::kOfRoof);
      if (found == run.counters.end()) {  // it said why on its way
        ++failed_;
        continue;
      }
      const double fraction = found->second;
      double& best = fractions_[run.run_name.function_name];
      best = std::max(best, fraction);
      print(run, fraction);
    }
    if (!output_.empty()) save(output_, fractions_);
  }

  const Fractions& fractions() const { return fractions_; }
  int failed() const { return failed_; }

 private:
  static void print(const Run& run, double fraction) {
    std::string rate, tokens;
    for (const auto& [name, unit] : {std::pair("FLOP/s", "FLOP/s"), std::pair("bytes/s", "B/s")}) {
      const auto found = run.counters.find(name);
      if (found != run.counters.end()) rate = fmt::format("{:.1f} G{}", found->second / 1e9, unit);
    }
    const auto found = run.counters.find("tokens/s");
    if (found != run.counters.end()) tokens = fmt::format("{:.0f}", double(found->second));
    fmt::print("{:<52}{:>9.1f} us{:>14}{:>9.3f}{:>12}\n", run.run_name.function_name,
               run.real_accumulated_time / double(run.iterations) * 1e6, rate, fraction, tokens);
    std::fflush(stdout);
  }

  std::string output_;
  Fractions fractions_;
  int failed_ = 0;
};

void take_benchmark_flags(std::vector<std::string> flags) {
  static char program[] = "bench_kernels";  // the library keeps the pointer
  std::vector<char*> argv = {program};
  for (std::string& flag : flags) argv.push_back(flag.data());
  int argc = int(argv.size());
  argv.push_back(nullptr);
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1) throw Error(std::string("unknown argument ") + argv[1]);
}

Fractions load(const std::string& path) {
  std::ifstream file(path);
  check(bool(file), "cannot read the baseline " + path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  check(json.is_object() && !json.empty(),
        path + " is not a baseline: expected what --save wrote, a JSON object of numbers");
  Fractions fractions;
  for (const auto& [name, fraction] : json.items()) {
    check(fraction.is_number() && fraction > 0, path + ": " + name + " is not a positive number");
    fractions[name] = fraction;
  }
  return fractions;
}

// Compares the kernels that were run with the baseline's, of which each has to be there if `whole`.
void compare(const Fractions& baseline, const Fractions& found, bool whole) {
  int compared = 0, slower = 0, missing = 0;
  for (const auto& [name, before] : baseline) {
    const auto now = found.find(name);
    if (now == found.end()) {
      if (whole) fmt::print("in the baseline, but not measured: {}\n", name);
      ++missing;
      continue;
    }
    ++compared;
    if (now->second >= (1 - kAllowedLoss) * before) continue;
    ++slower;
    fmt::print("slower: {} reaches {:.3f} of its roof, {:.3f} before\n", name, now->second, before);
  }
  fmt::print("{} kernels compared with the baseline, {} slower\n", compared, slower);
  check(compared > 0, "no kernel that was measured is in the baseline");
  check(slower == 0, fmt::format("{} kernels lost more than {:.0f}%", slower, 100 * kAllowedLoss));
  check(!whole || missing == 0, fmt::format("{} kernels of the baseline were not measured", missing));
}

std::vector<Config> load_configs(const std::vector<std::string>& paths) {
  std::vector<Config> configs;
  for (const std::string& path : paths) configs.push_back(load_config(path));
  return configs;
}

void add_kernels(const std::string& device, const std::vector<bench::LayerCase>& layers) {
  const std::string no_gpu = device == "cpu" ? "the CPU is asked for" : bench::add_cuda_kernels(layers);
  check(device != "cuda" || no_gpu.empty(), "the GPU cannot be used: " + no_gpu);
  if (no_gpu.empty()) return;
  benchmark::AddCustomContext("gpu", "not measured: " + no_gpu);
  bench::add_cpu_kernels(layers);
}

// What the card allows the given configs, and then what every card does.
void print_roofline(const std::string& card, const std::vector<std::string>& paths) {
  check(!paths.empty(),
        "--model needs the configs to count: bench_kernels --model rtx4090 --config configs/*.yaml");
  const std::vector<Config> configs = load_configs(paths);
  for (size_t i = 0; i < configs.size(); ++i) {
    fmt::print("{}\n{}\n", paths[i], bench::roofline(configs[i], card_named(card)));
  }
  fmt::print("tokens/s at most, and the micro-batch\n{}", bench::roofline_of_cards(configs));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures every kernel against a large copy and a large matrix product.", "bench_kernels");
  std::string device = "auto";
  app.add_option("--device", device, "cuda, cpu, or auto: a GPU where there is one")
      ->check(CLI::IsMember({"cuda", "cpu", "auto"}));
  app.footer("Google Benchmark's flags are taken too, as in --benchmark_filter=rmsnorm.");
  std::string baseline, output, card;
  std::vector<std::string> configs;
  app.add_option("--check", baseline, "fail if a kernel lost 5% of its fraction in this baseline");
  app.add_option("--save", output, "write the fractions as a baseline");
  app.add_option(
      "--model", card,
      "measure nothing: print the least time that a card's rates allow each kernel of a step; one of " +
          names_of_cards());
  app.add_option(
      "--config", configs,
      "configs whose layer is measured too, forward and backward; with --model, whose steps are counted");
  app.allow_extras();
  return run_main(app, argc, argv, [&] {
    const std::vector<std::string> flags = app.remaining();
    if (!card.empty()) {
      check(flags.empty() && baseline.empty() && output.empty(),
            "--model measures nothing: it takes --config alone");
      return print_roofline(card, configs);
    }
    const bool filtered = std::any_of(flags.begin(), flags.end(), [](const std::string& flag) {
      return flag.starts_with("--benchmark_filter");
    });
    take_benchmark_flags(flags);
    const Fractions before = baseline.empty() ? Fractions() : load(baseline);
    add_kernels(device, bench::layers_of(load_configs(configs)));
    if (!output.empty()) save(output, {});  // a bad path is refused before anything is measured
    Reporter reporter(output);
    check(benchmark::RunSpecifiedBenchmarks(&reporter) > 0, "no benchmark has such a name");
    if (!baseline.empty()) compare(before, reporter.fractions(), !filtered);
    check(reporter.failed() == 0, fmt::format("{} kernels could not be measured", reporter.failed()));
  });
}
