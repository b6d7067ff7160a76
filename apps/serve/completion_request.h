// The body of POST /v1/completions, as OpenAI's API has it
// (https://platform.openai.com/docs/api-reference/completions), and two fields of our own: top_k and recurrence.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/sampler.h"

namespace genesis {

using Prompt = std::variant<std::string, std::vector<int32_t>>;  // a text, or tokens

struct CompletionRequest {
  std::string model;  // empty: the first there is
  std::vector<Prompt> prompts;
  int64_t max_tokens = 16;
  SamplingOptions sampling;
  int64_t n = 1;  // completions of each prompt
  bool stream = false, include_usage = false, echo = false;
  std::optional<int64_t> logprobs;  // alternatives a token
  std::vector<std::string> stop;
  std::optional<uint64_t> seed;
  int64_t recurrence = 0;  // recurrent steps; 0: as trained
};

// A request's body: a JSON object. Throws ApiError.
nlohmann::json parse_object(std::string_view body);

constexpr int64_t kMostCompletions = 256;  // prompts times n

// Throws ApiError, which names the field, for anything else: what is not there, what has no effect here (best_of,
// penalties), and what nobody knows.
CompletionRequest parse_completion(std::string_view body);

}  // namespace genesis
