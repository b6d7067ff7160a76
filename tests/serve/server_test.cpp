// The server as its clients meet it: over sockets, some of them slow, some gone, some talking nonsense.
#include "apps/serve/server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/common/random.h"
#include "tests/serve/served_run.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

class Running {
 public:
  explicit Running(const std::string& run, ServerOptions options = {})
      : server_(with_any_port(run, options)) {
    thread_ = std::thread([this] { server_->run(); });
    const auto until = steady_clock::now() + milliseconds(20'000);
    while (!client().Get("/health")) REQUIRE(steady_clock::now() < until);
  }
  ~Running() {
    server_->stop();
    thread_.join();
  }
  int port() const { return server_->port(); }

  httplib::Client client() const {
    httplib::Client c("127.0.0.1", port());
    c.set_read_timeout(60);
    return c;
  }
  json health() const { return json::parse(client().Get("/health")->body); }

  // The answer's status and body.
  std::pair<int, json> post(const std::string& path, const std::string& body) const {
    const auto result = client().Post(path, body, "application/json");
    if (!result) return {0, json()};
    return {result->status, json::parse(result->body, nullptr, false)};
  }

  bool idle_within(milliseconds time) const {
    for (const auto until = steady_clock::now() + time; steady_clock::now() < until;) {
      if (health()["unfinished"] == 0) return true;
      std::this_thread::sleep_for(milliseconds(20));
    }
    return false;
  }

 private:
  static std::unique_ptr<Server> with_any_port(const std::string& run, ServerOptions options) {
    options.port = 0;
    return std::make_unique<Server>(std::vector<std::string>{run}, options);
  }
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// A client that says what it likes.
class Raw {
 public:
  explicit Raw(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(uint16_t(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval most{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~Raw() { close(fd_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  bool say(const std::string& text) const {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size());
  }
  // Until the server closes, or has said so much.
  std::string hear(size_t most = size_t(1) << 20) const {
    std::string all;
    char part[4096];
    while (all.size() < most) {
      const ssize_t n = recv(fd_, part, sizeof part, 0);
      if (n <= 0) break;
      all.append(part, size_t(n));
    }
    return all;
  }

 private:
  int fd_;
};

std::string completion_of(int tokens, bool stream = false) {
  return json{{"prompt", "In the"}, {"max_tokens", tokens}, {"temperature", 0}, {"stream", stream}}.dump();
}

std::string raw_post(const std::string& body) {
  return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
         "application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// So many clients for so long, of all kinds: each answer that is whole has to be the one that a client alone gets.
// Every client gets some.
void check_load(const Running& server, int clients, milliseconds time) {
  const std::string alone = server.post("/v1/completions", completion_of(20)).second["choices"][0]["text"];
  std::atomic<int64_t> wrong = 0, starved = 0, answers = 0;
  const auto until = steady_clock::now() + time;
  const auto client_of_kind = [&](int number) {
    int64_t own = 0;
    for (uint64_t turn = 0; own == 0 || steady_clock::now() < until; ++turn) {
      if (steady_clock::now() > until + milliseconds(60'000)) break;
      const auto kind = number % 4 == 0 ? random_bits(7, uint64_t(number), turn) % 4 : 0;
      if (kind == 1) {  // leaves in the middle of its answer
        const Raw raw(server.port());
        raw.say(raw_post(completion_of(50, true)));
        raw.hear(50);
      } else if (kind == 2) {  // talks nonsense
        const Raw raw(server.port());
        std::string nonsense;
        for (int i = 0; i < 200; ++i)
          nonsense += char(random_bits(8, uint64_t(number), turn * 200 + uint64_t(i)));
        raw.say(raw_post(nonsense) + nonsense);
      } else if (kind == 3) {  // is slow, and leaves
        const Raw raw(server.port());
        for (const char c : std::string("POST /v1/com")) {
          raw.say(std::string(1, c));
          std::this_thread::sleep_for(milliseconds(5));
        }
      } else {
        const auto result = server.client().Post("/v1/completions", completion_of(20), "application/json");
        if (!result || result->status != 200) continue;
        ++own;
        wrong += json::parse(result->body)["choices"][0]["text"] != alone;
      }
    }
    answers += own;
    starved += own == 0;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) threads.emplace_back(client_of_kind, i);
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(starved == 0);
  CHECK(answers >= clients);
  CHECK(server.idle_within(milliseconds(30'000)));
  UNSCOPED_INFO(answers << " answers");
}

}  // namespace

TEST_CASE("server: answers as the API does, whole and streamed, and refuses as the API does") {
  const ServedRun run;
  const Running server(run.run);
  CHECK(server.health()["status"] == "ok");
  const json models = json::parse(server.client().Get("/v1/models")->body);
  REQUIRE(models["data"].size() == 3);
  CHECK(models["data"][0]["id"] == "run");
  CHECK(models["data"][1]["id"] == "run/step_00000020");

  const auto [status, whole] = server.post("/v1/completions", completion_of(10));
  CHECK(status == 200);
  const std::string text = whole["choices"][0]["text"];
  const auto streamed = server.client().Post("/v1/completions", completion_of(10, true), "application/json");
  REQUIRE(streamed);
  CHECK(streamed->get_header_value("Content-Type") == "text/event-stream");
  std::string pieces;
  size_t at = 0;
  for (size_t end; (end = streamed->body.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string event = streamed->body.substr(at, end - at);
    REQUIRE(event.starts_with("data: "));
    if (event == "data: [DONE]") continue;
    pieces += json::parse(event.substr(6))["choices"][0]["text"].get<std::string>();
  }
  CHECK(pieces == text);
  CHECK(streamed->body.ends_with("data: [DONE]\n\n"));

  const auto error_of = [&](const std::string& body) {
    const auto [code, answer] = server.post("/v1/completions", body);
    return std::to_string(code) + " " + answer["error"]["param"].dump();
  };
  CHECK(error_of("{}") == "400 \"prompt\"");
  CHECK(error_of("nonsense") == "400 null");
  CHECK(error_of(R"({"prompt":"a","model":"../run"})") == "404 \"model\"");
  CHECK(error_of(std::string(size_t(2) << 20, 'x')) == "413 null");
  const auto plain = server.client().Post("/v1/completions", completion_of(1), "text/plain");
  CHECK(plain->status == 415);
  const auto elsewhere = server.client().Get("/v1/models", {{"Host", "evil.example"}});
  CHECK(elsewhere->status == 403);

  // What lm-evaluation-harness asks for.
  CHECK(json::parse(server.client().Get("/tokenizer_info")->body)["eos_token"] == "<|endoftext|>");
  const json tokens =
      server.post("/tokenize", R"({"prompt":"In the","add_special_tokens":false})").second["tokens"];
  CHECK(server.post("/detokenize", json{{"tokens", tokens}}.dump()).second["prompt"] == "In the");
  CHECK(server.post("/tokenize", R"({"prompt":"<|endoftext|>"})").second["count"] == 1);
  CHECK(server.post("/detokenize", R"({"tokens":[-1]})").first == 400);
}

TEST_CASE("server: nothing of the host is read through it") {
  const ServedRun run;
  const Running server(run.run);
  for (const char* path :
       {"/../../../../etc/passwd", "/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/..\\..\\etc",
        "/config.yaml", "/checkpoints/step_00000020/state.json", "/v1/models/../../etc/passwd",
        "/runs/../../etc/passwd", "/%00", "/runs?path=/etc/passwd"}) {
    const Raw raw(server.port());
    raw.say(std::string("GET ") + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const std::string answer = raw.hear();
    INFO(path << ": " << answer.substr(0, 200));
    CHECK(answer.find("root:") == std::string::npos);
    CHECK((answer.starts_with("HTTP/1.1 4") || answer.find("\"panels\"") != std::string::npos));
  }
  const std::string page = server.client().Get("/")->body;
  CHECK(lacks(page, "Genesis playground") == "");
  for (const char* outside :
       {"https://", "src=", "innerHTML", "insertAdjacentHTML", "document.write", "eval("}) {
    INFO(outside);
    CHECK(page.find(outside) == std::string::npos);
  }
  CHECK(lacks(server.client().Get("/")->get_header_value("Content-Security-Policy"), "default-src 'none'") ==
        "");
}

TEST_CASE("server: a client that leaves is written for no longer, streamed to or not") {
  const ServedRun run;
  ServerOptions options;
  options.models.context = 100000;
  const Running server(run.run, options);
  server.post("/v1/completions", completion_of(1));  // loads the model
  for (const bool stream : {false, true}) {
    INFO(stream);
    {
      const Raw raw(server.port());
      raw.say(raw_post(json{{"prompt", "In"}, {"max_tokens", 90000}, {"n", 4}, {"stream", stream}}.dump()));
      for (const auto until = steady_clock::now() + milliseconds(20'000);
           server.health()["unfinished"] == 0;) {
        REQUIRE(steady_clock::now() < until);
      }
    }
    CHECK(server.idle_within(milliseconds(20'000)));
  }
}

TEST_CASE("server: clients that take their time keep no thread from others") {
  const ServedRun run;
  ServerOptions options;
  options.connections = 4;
  options.patience = milliseconds(700);
  const Running server(run.run, options);
  std::vector<std::unique_ptr<Raw>> slow;
  std::atomic<bool> enough = false;
  for (int i = 0; i < 6; ++i) slow.push_back(std::make_unique<Raw>(server.port()));
  std::thread dripping([&] {  // a byte of the headers now and then, and of a body
    for (size_t at = 0; !enough; ++at) {
      for (size_t i = 0; i < slow.size(); ++i) {
        const std::string all = i % 2 ? "GET /health HTTP/1.1\r\nX-Slow: " + std::string(100000, 'x')
                                      : raw_post(std::string(100000, ' '));
        slow[i]->say(i % 2 ? all.substr(at, 1) : at == 0 ? all.substr(0, 200) : " ");
      }
      std::this_thread::sleep_for(milliseconds(50));
    }
  });
  for (int i = 0; i < 3; ++i) CHECK(server.post("/v1/completions", completion_of(5)).first == 200);
  enough = true;
  dripping.join();
}

TEST_CASE("server: many clients at a time, some leaving, some talking nonsense, some slow") {
  const ServedRun run;
  const Running server(run.run);
  check_load(server, 16, milliseconds(300));
}

TEST_CASE("server: 64 clients for a minute, and its memory stays", "[.][long]") {
  const ServedRun run;
  const Running server(run.run);
  check_load(server, 64, milliseconds(20'000));
  const int64_t before = resident_bytes();
  check_load(server, 64, milliseconds(60'000));
  WARN(before << " bytes resident after 20 s, " << resident_bytes() << " after a minute more");
  CHECK(resident_bytes() < before + (int64_t(16) << 20));
}

TEST_CASE("server: says which port is taken") {
  const ServedRun run;
  const Running server(run.run);
  ServerOptions options;
  options.port = server.port();
  CHECK(lacks(message_of([&] { Server({run.run}, options); }), "cannot listen on 127.0.0.1 port") == "");
}
