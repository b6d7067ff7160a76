// The HTTP server: OpenAI's completions API, what lm-evaluation-harness asks beside it, and the playground page.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "apps/serve/model_pool.h"

namespace genesis {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                             // 0: any that is free
  size_t most_body = size_t(1) << 20;          // bytes
  size_t connections = 128;                    // at a time; each has a thread
  int64_t most_unfinished = 256;               // completions that wait or run
  std::chrono::milliseconds timeout{300'000};  // of a completion, its waiting included
  std::chrono::milliseconds patience{10'000};  // with a client that takes its time over a request
  ModelPoolOptions models;
};

class Server {
 public:
  // Binds the port; throws Error where it can't.
  Server(const std::vector<std::string>& paths, const ServerOptions& options);
  ~Server();

  int port() const;
  void run();   // until stop()
  void stop();  // any thread; run() returns once the connections have ended, which they do at once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace genesis
