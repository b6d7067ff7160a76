// bench_kernels: every kernel at the shapes of training, against a large copy and a large matrix product
// measured in the same run.
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/main.h"
#include "bench/kernels/register.h"
#include "bench/kernels/roofline.h"
#include "kernels/common/error.h"

using namespace genesis;

namespace {

using Fractions = std::map<std::string, double>;

// A kernel may lose this much of its fraction before --check says so.
constexpr double kAllowedLoss = 0.05;

// Prints as usual, and keeps each kernel's best fraction over the repetitions.
class Reporter : public benchmark::ConsoleReporter {
 public:
  Reporter() : ConsoleReporter(OO_Tabular) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      const auto fraction = run.counters.find(bench::kOfRoof);
      if (run.run_type != Run::RT_Iteration || fraction == run.counters.end()) continue;
      double& best = fractions_[run.run_name.function_name];
      best = std::max(best, double(fraction->second));
    }
  }

  const Fractions& fractions() const { return fractions_; }

 private:
  Fractions fractions_;
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

void save(const std::string& path, const Fractions& fractions) {
  std::ofstream file(path);
  file << nlohmann::json(fractions).dump(2) << "\n";
  file.close();
  check(bool(file), "cannot write " + path);
}

Fractions load(const std::string& path) {
  std::ifstream file(path);
  check(bool(file), "cannot read the baseline " + path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  check(json.is_object(), path + " is not a baseline: expected what --save wrote, a JSON object of numbers");
  Fractions fractions;
  for (const auto& [name, fraction] : json.items()) {
    check(fraction.is_number(), path + ": " + name + " is not a number");
    fractions[name] = fraction;
  }
  return fractions;
}

// Compares the kernels that were run with the baseline's.
void compare(const Fractions& baseline, const Fractions& found) {
  int compared = 0, slower = 0;
  for (const auto& [name, fraction] : found) {
    const auto before = baseline.find(name);
    if (before == baseline.end()) {
      fmt::print("not in the baseline: {}\n", name);
      continue;
    }
    ++compared;
    if (fraction >= (1 - kAllowedLoss) * before->second) continue;
    ++slower;
    fmt::print("slower: {} reaches {:.3f} of its roof, {:.3f} before\n", name, fraction, before->second);
  }
  fmt::print("{} kernels compared with the baseline, {} slower\n", compared, slower);
  check(compared > 0, "no kernel that was run is in the baseline");
  check(slower == 0, fmt::format("{} kernels lost more than {:.0f}%", slower, 100 * kAllowedLoss));
}

void add_kernels(const std::string& device) {
  const bool cuda = device != "cpu" && bench::add_cuda_kernels();
  check(cuda || device != "cuda", "there is no GPU here that this build can use");
  if (!cuda) bench::add_cpu_kernels();
}

// What the card allows the given configs, and then what every card does.
void print_roofline(const std::string& card, const std::vector<std::string>& paths) {
  check(!paths.empty(),
        "--model needs the configs to count: bench_kernels --model sm_89 --config configs/*.yaml");
  std::vector<Config> configs;
  for (const std::string& path : paths) configs.push_back(load_config(path));
  for (size_t i = 0; i < configs.size(); ++i) {
    fmt::print("{}\n{}\n", paths[i], bench::roofline(configs[i], bench::card_named(card)));
  }
  fmt::print("tokens/s at most\n{}", bench::roofline_of_cards(configs));
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
  app.add_option("--model", card,
                 "measure nothing: print the least time that a card's rates allow each kernel of a step");
  app.add_option("--config", configs, "with --model: the configs whose steps are counted");
  app.allow_extras();
  return run_main(app, argc, argv, [&] {
    if (!card.empty()) return print_roofline(card, configs);
    take_benchmark_flags(app.remaining());
    const Fractions before = baseline.empty() ? Fractions() : load(baseline);
    add_kernels(device);
    Reporter reporter;
    check(benchmark::RunSpecifiedBenchmarks(&reporter) > 0, "no benchmark has such a name");
    if (!output.empty()) save(output, reporter.fractions());
    if (!baseline.empty()) compare(before, reporter.fractions());
  });
}
