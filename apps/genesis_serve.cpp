// genesis_serve RUN_DIR|CHECKPOINT...: an HTTP server that writes with the models of runs, and shows their curves.
#include <fmt/format.h>

#include <exception>
#include <iostream>
#include <thread>

#include "apps/integer_in.h"
#include "apps/main.h"
#include "apps/serve/server.h"
#include "apps/train/stop_signals.h"

using namespace genesis;

namespace {

void serve(const std::vector<std::string>& paths, const ServerOptions& options) {
  StopSignals signals;
  Server server(paths, options);
  const bool named = options.host.find(':') != std::string::npos;
  std::cout << fmt::format(
                   "http://{}{}{}:{}/ has the playground, and /v1 OpenAI's completions API; Ctrl-C ends it",
                   named ? "[" : "", options.host, named ? "]" : "", server.port())
            << std::endl;
  signals.arm();
  std::exception_ptr failure;
  std::thread listener([&] {
    try {
      server.run();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  while (!signals.asked() && !failure) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.stop();
  listener.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Serves models over HTTP: OpenAI's completions API, and a page to try them and watch their runs.",
      "genesis_serve"};
  std::vector<std::string> paths;
  ServerOptions o;
  int64_t timeout = 300;
  app.add_option("runs", paths, "runs' folders (all their checkpoints) and checkpoints' folders")->required();
  app.add_option("--host", o.host,
                 "the address to listen on; 0.0.0.0: all, for everyone who can reach this machine")
      ->capture_default_str();
  app.add_option("--port", o.port, "0: any that is free")
      ->transform(integer_in(0, 65535))
      ->capture_default_str();
  app.add_option("--slots", o.models.slots,
                 "texts that a model writes at a time; each has memory for a whole context")
      ->transform(integer_in(1, 64))
      ->capture_default_str();
  app.add_option("--context", o.models.context,
                 "tokens of a text at most; 0: as many as the model was trained on")
      ->transform(integer_in(0, int64_t(1) << 24))
      ->capture_default_str();
  app.add_option("--models", o.models.most_models, "models in memory at a time")
      ->transform(integer_in(1, 64))
      ->capture_default_str();
  app.add_option("--queue", o.most_unfinished, "texts that are written or wait at most; more are refused")
      ->transform(integer_in(1, 65536))
      ->capture_default_str();
  app.add_option("--timeout", timeout, "seconds that a text may take, its waiting included")
      ->transform(integer_in(1, 86400))
      ->capture_default_str();
  app.add_option("--connections", o.connections, "clients at a time; others wait")
      ->transform(integer_in(1, 4096))
      ->capture_default_str();
  app.add_option("--tokenizer", o.models.tokenizer, "the tokenizer, where the runs' folders have none");
  return run_main(app, argc, argv, [&] {
    o.timeout = std::chrono::seconds(timeout);
    serve(paths, o);
  });
}
