// genesis_train CONFIG: trains what the config describes.
#include <iostream>

#include "apps/device.h"
#include "apps/main.h"
#include "apps/train/plan_report.h"
#include "apps/train/stop_signals.h"
#include "apps/train/trainer.h"
#include "apps/train/training_graph.h"
#include "engine/device/device.h"
#include "engine/passes/print.h"
#include "engine/time/rates.h"
#include "kernels/common/error.h"

using namespace genesis;

namespace {

void print_graph(const Config& config) {
  const auto print = [](const char* pass, const Graph& graph) {
    std::cout << "# after " << pass << "\n" << to_string(graph) << "\n";
  };
  build_training_graph(config, target_on(config, *open_device_or_cpu(config.device)), print);
}

void train(const Config& config) {
  StopSignals signals;
  Trainer trainer(config, Terminal::standard_output());
  signals.arm();
  trainer.run([&] { return signals.asked(); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Trains a language model as a YAML file describes it.", "genesis_train"};
  std::string path, help, card;
  bool plan = false, graph = false, print = false;
  app.add_option("config", path,
                 "the run's YAML file, - for standard input; docs/config.md lists its fields");
  app.add_flag("--plan", plan, "print parameters, FLOPs and memory, and change nothing");
  app.add_option(
      "--gpu", card,
      "with --plan: on this card, which need not be here, with the least time of a step and the best "
      "micro-batch; one of " +
          names_of_cards());
  app.add_flag("--print-graph", graph, "print the graph after each pass, and change nothing");
  app.add_flag("--print-config", print, "print every field's value, and change nothing");
  app.add_option("--help-config", help, "what every field means, as text or markdown")
      ->expected(0, 1)
      ->default_str("text")
      ->check(CLI::IsMember({"text", "markdown"}));
  app.footer("Any field can be given on the command line: --train.steps=100 --optim.lr=3e-4");
  app.allow_extras();

  return run_main(app, argc, argv, [&] {
    if (app.count("--help-config")) {
      std::cout << (help == "markdown" ? config_markdown() : config_help());
      return;
    }
    check_overrides(app.remaining());
    check(plan || card.empty(),
          "--gpu says what --plan plans for: genesis_train CONFIG.yaml --plan --gpu CARD");
    check(!path.empty(), "which config? genesis_train CONFIG.yaml");
    const Config config = load_config(path, app.remaining());
    if (print) {
      std::cout << print_config(config);
    } else if (plan) {
      std::cout << (card.empty() ? plan_report(config, *open_device_or_cpu(config.device))
                                 : plan_report(config, card_named(card)));
    } else if (graph) {
      print_graph(config);
    } else {
      train(config);
    }
  });
}
