#include "apps/serve/server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <functional>

#include "apps/serve/api_error.h"
#include "apps/serve/completion.h"
#include "apps/serve/connections.h"
#include "apps/serve/pages.h"

namespace genesis {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kLook = milliseconds(100);  // for a client that has left, while an answer is awaited

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void answer(httplib::Response& response, const Json& json, int status = 200) {
  response.status = status;
  response.set_content(text_of(json) + "\n", "application/json");
}

// The name that a client calls the server by, without its port.
std::string host_of(const httplib::Request& request) {
  const std::string host = request.get_header_value("Host");
  const size_t bracket = host.find(']');
  return host.substr(0, host.find(':', bracket == std::string::npos ? 0 : bracket));
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == "::1";
}

// What every handler does with what goes wrong.
void guard(httplib::Response& response, const std::function<void()>& handle) {
  try {
    handle();
  } catch (const ApiError& e) {
    answer(response, json_of(e), e.status);
  } catch (const std::exception& e) {
    answer(response, json_of(ApiError(500, e.what())), 500);
  }
}

std::string model_of(const nlohmann::json& object) {
  if (!object.contains("model") || object["model"].is_null()) return "";
  check_field(object["model"].is_string(), "model", "expected a text");
  return object["model"].get<std::string>();
}

}  // namespace

struct Server::State {
  const ServerOptions options;
  Catalogue catalogue;
  ModelPool pool;
  Engine engine;
  Pages pages;
  httplib::Server http;
  int port = 0;
  std::unique_ptr<Connections> connections;
  std::atomic<bool> stopping = false;

  State(const std::vector<std::string>& paths, const ServerOptions& o)
      : options(o), catalogue(paths), pool(o.models), engine(o.most_unfinished), pages(catalogue) {
    set_limits();
    set_routes();
  }

  void set_limits();
  void set_routes();
  void bind();

  std::string body_of(const httplib::Request& request, const httplib::ContentReader& reader) const;
  Json models() const;
  void complete(const httplib::Request& request, httplib::Response& response, const std::string& body);
  void stream(std::shared_ptr<Completion> completion, const httplib::Request& request,
              httplib::Response& response);
  Json tokenize(const std::string& body);
  Json detokenize(const std::string& body);
  bool unwanted(const httplib::Request& request) const {
    return stopping || connections->left(request.remote_addr, request.remote_port);
  }
};

void Server::State::set_limits() {
  http.new_task_queue = [n = options.connections] { return new httplib::ThreadPool(n); };
  http.set_payload_max_length(options.most_body);
  http.set_read_timeout(options.patience);
  http.set_write_timeout(options.patience);
  http.set_keep_alive_max_count(1000);
  http.set_keep_alive_timeout(5);
  http.set_tcp_nodelay(true);
  // The port must be ours alone: the library's own choice lets two servers share one.
  http.set_socket_options([](auto socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http.set_default_headers({{"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"}});
  http.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    connections->begin(request.remote_addr, request.remote_port);
    // A web page elsewhere whose name has come to mean this machine must not read what is here.
    if (is_loopback(options.host) && !is_loopback(host_of(request))) {
      answer(
          response,
          json_of(ApiError(403, "this server answers to localhost alone; start it with --host for others")),
          403);
      return httplib::Server::HandlerResponse::Handled;
    }
    return httplib::Server::HandlerResponse::Unhandled;
  });
  http.set_logger([this](const httplib::Request& request, const httplib::Response&) {
    connections->end(request.remote_addr, request.remote_port);
  });
  http.set_error_handler(
      httplib::Server::Handler([](const httplib::Request& request, httplib::Response& response) {
        if (!response.body.empty()) return;
        const int status = response.status;
        const std::string what = status == 404
                                     ? "there is no " + request.method + " " + request.path.substr(0, 200)
                                 : status == 413 ? "the request's body is too large"
                                                 : "the request could not be read";
        answer(response, json_of(ApiError(status, what)), status);
      }));
}

void Server::State::set_routes() {
  const auto get = [this](const char* path, const std::function<Json()>& make) {
    http.Get(path, [make](const httplib::Request&, httplib::Response& response) {
      guard(response, [&] { answer(response, make()); });
    });
  };
  // A body that says it is JSON: another site's page can't send that without this server's leave.
  using Handle = std::function<void(const httplib::Request&, httplib::Response&, const std::string& body)>;
  const auto post = [this](const char* path, const Handle& handle) {
    http.Post(path, [this, handle](const httplib::Request& request, httplib::Response& response,
                                   const httplib::ContentReader& reader) {
      guard(response, [&] { handle(request, response, body_of(request, reader)); });
    });
  };
  get("/health", [this] { return Json{{"status", "ok"}, {"unfinished", engine.unfinished()}}; });
  get("/v1/models", [this] { return models(); });
  get("/runs", [this] { return pages.runs(); });
  get("/tokenizer_info", [] {
    return Json{{"tokenizer_class", "Genesis"},
                {"bos_token", nullptr},
                {"eos_token", kEndOfText},
                {"pad_token", nullptr}};
  });
  http.Get("/", [this](const httplib::Request&, httplib::Response& response) {
    response.set_header("Content-Security-Policy", Pages::kPolicy);
    response.set_content(pages.playground(), "text/html; charset=utf-8");
  });
  post("/v1/completions",
       [this](const auto& request, auto& response, const auto& body) { complete(request, response, body); });
  post("/tokenize",
       [this](const auto&, auto& response, const auto& body) { answer(response, tokenize(body)); });
  post("/detokenize",
       [this](const auto&, auto& response, const auto& body) { answer(response, detokenize(body)); });
}

std::string Server::State::body_of(const httplib::Request& request,
                                   const httplib::ContentReader& reader) const {
  const std::string type = request.get_header_value("Content-Type");
  if (!type.starts_with("application/json"))
    throw ApiError(415, "expected a body of Content-Type application/json");
  std::string body;
  const auto until = steady_clock::now() + options.patience;
  bool late = false, large = false;
  const bool whole = reader([&](const char* data, size_t size) {
    late = steady_clock::now() > until;
    large = body.size() + size > options.most_body;
    if (late || large) return false;
    body.append(data, size);
    return true;
  });
  if (large || (!whole && !late))
    throw ApiError(
        413, fmt::format("the request's body is not whole, or larger than {} bytes", options.most_body));
  if (late) throw ApiError(408, "the request's body took too long to come");
  return body;
}

Json Server::State::models() const {
  Json list = Json::array();
  for (const CatalogueEntry& e : catalogue.list()) {
    Json entry = {{"id", e.id},     {"object", "model"},  {"created", 0},    {"owned_by", "genesis"},
                  {"step", e.step}, {"tokens", e.tokens}, {"bytes", e.bytes}};
    if (!e.problem.empty()) entry["problem"] = e.problem;
    list.push_back(entry);
  }
  return {{"object", "list"}, {"data", list}};
}

void Server::State::complete(const httplib::Request& request, httplib::Response& response,
                             const std::string& body) {
  const auto deadline = steady_clock::now() + options.timeout;
  const CompletionRequest wanted = parse_completion(body);
  const CatalogueEntry entry = catalogue.find(wanted.model);
  auto model = pool.get(entry, wanted.recurrence);
  auto completion = std::make_shared<Completion>(wanted, std::move(model), entry.id, deadline, engine);
  if (wanted.stream) return stream(std::move(completion), request, response);
  while (!unwanted(request)) {
    if (const auto whole = completion->whole(kLook)) return answer(response, *whole);
  }
  throw ApiError(503, "the server is stopping");  // or nobody reads it
}

void Server::State::stream(std::shared_ptr<Completion> completion, const httplib::Request& request,
                           httplib::Response& response) {
  response.set_header("Cache-Control", "no-store");
  const auto provide = [this, completion, request](size_t, httplib::DataSink& sink) {
    const auto send = [&](const std::string& data) {
      const std::string event = "data: " + data + "\n\n";
      return sink.write(event.data(), event.size());
    };
    if (unwanted(request)) return false;
    if (const auto piece = completion->next(kLook)) return send(text_of(*piece));
    if (!completion->done()) return true;
    if (!send("[DONE]")) return false;
    sink.done();
    return true;
  };
  response.set_chunked_content_provider("text/event-stream", provide);
}

// As vLLM's, which lm-evaluation-harness reads: {"prompt": text} -> {"tokens": [...], "count": n}.
Json Server::State::tokenize(const std::string& body) {
  const nlohmann::json object = parse_object(body);
  check_field(object.contains("prompt") && object["prompt"].is_string(), "prompt", "expected a text");
  const auto text = object["prompt"].get<std::string>();
  const auto tokenizer = pool.tokenizer(catalogue.find(model_of(object)));
  const auto tokens = text == kEndOfText ? std::vector<int32_t>{tokenizer->eod()} : tokenizer->encode(text);
  return {{"tokens", tokens}, {"count", tokens.size()}};
}

Json Server::State::detokenize(const std::string& body) {
  const nlohmann::json object = parse_object(body);
  const auto tokenizer = pool.tokenizer(catalogue.find(model_of(object)));
  check_field(object.contains("tokens") && object["tokens"].is_array(), "tokens",
              "expected a list of tokens");
  std::vector<int32_t> tokens;
  for (const auto& id : object["tokens"]) {
    const bool known = id.is_number_integer() && id >= 0 && id < tokenizer->vocab_size();
    check_field(known, "tokens", "expected whole numbers below " + std::to_string(tokenizer->vocab_size()));
    tokens.push_back(id.template get<int32_t>());
  }
  return {{"prompt", tokenizer->decode(tokens)}};
}

void Server::State::bind() {
  const bool bound = options.port == 0 ? (port = http.bind_to_any_port(options.host)) > 0
                                       : http.bind_to_port(options.host, port = options.port);
  check(bound, fmt::format("cannot listen on {} port {}: is another program there? --port takes another one",
                           options.host, options.port));
  connections = std::make_unique<Connections>(port, options.patience);
}

Server::Server(const std::vector<std::string>& paths, const ServerOptions& options)
    : state_(std::make_unique<State>(paths, options)) {
  state_->bind();
}
Server::~Server() = default;

int Server::port() const { return state_->port; }
void Server::run() { state_->http.listen_after_bind(); }
void Server::stop() {
  state_->stopping = true;
  state_->http.stop();
}

}  // namespace genesis
