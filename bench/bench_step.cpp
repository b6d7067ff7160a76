// bench_step CONFIG: a whole training step, on tokens made up here, against the same matrix products back to
// back in the same process. Steps and passes over the products alternate, so that both see the same machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

#include "apps/device.h"
#include "apps/main.h"
#include "apps/train/training_graph.h"
#include "apps/train/training_step.h"
#include "bench/products.h"
#include "engine/ops/matmul.h"
#include "engine/time/graph_time.h"
#include "kernels/common/random.h"
#include "model/executions.h"
#include "model/init.h"

using namespace genesis;

namespace {

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

Batch make_up_batch(const Config& config) {
  Batch batch{config.train.micro_batch, config.data.sequence_length, {}, {}, {}};
  for (int64_t i = 0; i < batch.B * batch.T; ++i) {
    const auto token = [&](int64_t at) {
      return int32_t(random_bits(1, 0, uint64_t(at)) % uint32_t(config.model.vocab_size));
    };
    batch.tokens.push_back(token(i));
    batch.targets.push_back(token(i + 1));
    batch.positions.push_back(int32_t(i % batch.T));
  }
  return batch;
}

void print_table(const Executable& executable, int steps, double tokens) {
  const Graph& graph = executable.graph();
  std::map<std::string, double> by_op;
  double total = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const double seconds = executable.node_seconds()[i] / steps;
    by_op[label_of(graph, graph.nodes[i], graph.nodes[i].op->name)] += seconds;
    total += seconds;
  }
  std::vector<std::pair<std::string, double>> rows(by_op.begin(), by_op.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::cout << fmt::format("{:<28}{:>12}{:>8}\n", "op", "us a token", "share");
  for (const auto& [name, seconds] : rows) {
    std::cout << fmt::format("{:<28}{:>12.2f}{:>7.1f}%\n", name, seconds / tokens * 1e6,
                             100 * seconds / total);
  }
}

void bench(Config config, int steps) {
  config.device.kind = Config::DeviceKind::cpu;  // nodes are timed by the host's clock
  const auto device = open_device(config.device);
  Storage storage(*device);
  const Target target = target_on(config, *device);
  const int64_t recurrence = trained_recurrence(config.model);
  TrainingStep step({{recurrence, build_training_graph(config, target).graph}}, config.optim, storage);
  initialise_parameters(config.model, 1, storage);
  const Batch batch = make_up_batch(config);
  Executable& executable = step.executable(recurrence);
  const Graph& graph = executable.graph();
  const Products all(*device, graph, [](const Node&) { return true; });
  const Products head(*device, graph, [](const Node& node) { return node.op != &ops::kMatMul; });

  const int64_t micro_steps = config.train.batch_size / config.train.micro_batch;
  const double tokens = double(config.train.batch_size * config.data.sequence_length);
  int64_t number = 0;
  const auto run_step = [&] {
    step.begin();
    for (int64_t i = 0; i < micro_steps; ++i) step.micro(batch, recurrence);
    step.update(1e-4, ++number);
    check(step.result().applied, "the step's loss or gradient is not finite");
  };
  const auto run_products = [&](const Products& p) {
    for (int64_t i = 0; i < micro_steps; ++i) p.run();
  };
  std::vector<double> step_s, products_s, head_s;
  for (int i = -2; i < steps; ++i) {  // two to warm up
    if (i == 0) {
      executable.time_nodes(true);
      step_s.clear(), products_s.clear(), head_s.clear();
    }
    step_s.push_back(seconds_of(run_step));
    products_s.push_back(seconds_of([&] { run_products(all); }));
    head_s.push_back(seconds_of([&] { run_products(head); }));
  }
  double matmul_s = median(head_s);  // those inside other ops, measured alone; the others in their nodes
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op == &ops::kMatMul) matmul_s += executable.node_seconds()[i] / steps;
  }

  print_table(executable, steps, tokens);
  const double step_time = median(step_s), products_time = median(products_s);
  std::cout << fmt::format(
      "\n{} on {}, {} tokens a step, median of {} steps\n"
      "step                  {:8.1f} ms   {:.0f} tokens/s\n"
      "its products alone    {:8.1f} ms   {:.0f} tokens/s, {:.0f} GFLOP/s\n"
      "time inside oneDNN    {:8.1f}% of the step\n"
      "the step runs at      {:8.1f}% of its products' speed\n",
      name_of(target.dtype), in_words(*device, config.device), int64_t(tokens), steps, step_time * 1e3,
      tokens / step_time, products_time * 1e3, tokens / products_time,
      double(micro_steps) * all.flops() / products_time / 1e9, 100 * matmul_s / step_time,
      100 * products_time / step_time);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A training step's speed, and that of its matrix products alone.", "bench_step"};
  std::string path;
  int steps = 20;
  app.add_option("config", path, "the run's YAML file; its data are not read")->required();
  app.add_option("--steps", steps, "steps to measure")->check(CLI::Range(1, 100000))->capture_default_str();
  app.allow_extras();
  return run_main(app, argc, argv, [&] { bench(load_config(path, app.remaining()), steps); });
}
