// A completion as the API answers it, whole or in pieces. Knows nothing of HTTP.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/serve/completion_request.h"
#include "apps/serve/engine.h"

namespace genesis {

constexpr const char* kEndOfText = "<|endoftext|>";  // the end-of-document token, for clients

class Completion {
 public:
  using Json = nlohmann::ordered_json;

  // Begins it. `name`: the model's, for the answer. Throws ApiError: a prompt that does not fit or has tokens that
  // the model has not, or too many that are unfinished (429).
  Completion(const CompletionRequest& request, std::shared_ptr<ServedModel> model, const std::string& name,
             std::chrono::steady_clock::time_point deadline, Engine& engine);
  ~Completion();  // what is unfinished is cancelled

  // The next piece of a stream, after at most so long: nothing if there is none yet, or where done() is true. The
  // pieces are objects of the API; an error is {"error": ...}, and the last.
  std::optional<Json> next(std::chrono::milliseconds most);
  bool done() const { return done_; }

  // The whole answer, once it is there: nothing if it is not after so long. Throws ApiError.
  std::optional<Json> whole(std::chrono::milliseconds most);

 private:
  struct Choice {
    explicit Choice(std::shared_ptr<Generation> g) : generation(std::move(g)) {}

    std::shared_ptr<Generation> generation;
    std::vector<GeneratedToken> tokens;  // of a whole answer
    int64_t offset = 0;                  // characters of text so far
    std::optional<End> end;
  };

  void throw_if_failed(const Generation::News& news) const;
  Json head() const;
  Json choice_of(size_t index, const std::vector<GeneratedToken>& tokens);
  Json log_probs_of(const std::vector<GeneratedToken>& tokens, int64_t offset) const;
  Json top_of(const GeneratedToken& token) const;
  std::string name_of(int32_t token) const;
  Json usage() const;

  const std::shared_ptr<ServedModel> model_;
  const std::string model_name_, id_;
  const int64_t created_;
  const std::optional<int64_t> logprobs_;
  const bool include_usage_;
  std::vector<Choice> choices_;
  size_t turn_ = 0;  // the choice that is looked at next
  int64_t prompt_tokens_ = 0, made_tokens_ = 0;
  bool usage_sent_ = false, done_ = false;
};

}  // namespace genesis
