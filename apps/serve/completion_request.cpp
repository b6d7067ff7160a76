#include "apps/serve/completion_request.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "apps/serve/api_error.h"
#include "io/json.h"

namespace genesis {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 8;
constexpr int64_t kMostAlternatives = 20;
constexpr size_t kMostStops = 16, kLongestStop = 1024;

int64_t integer(const json& value, const std::string& field, int64_t low, int64_t high) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t(high)) &&
                    value.get<int64_t>() >= low && value.get<int64_t>() <= high;
  check_field(fits, field,
              "expected a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return value.get<int64_t>();
}

double number(const json& value, const std::string& field, double low, double high, const char* expected) {
  const bool fits = value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
  check_field(fits, field, std::string("expected ") + expected);
  return value.get<double>();
}

bool boolean(const json& value, const std::string& field) {
  check_field(value.is_boolean(), field, "expected true or false");
  return value.get<bool>();
}

std::string text(const json& value, const std::string& field) {
  check_field(value.is_string(), field, "expected a text");
  return value.get<std::string>();
}

Prompt tokens(const json& list) {
  std::vector<int32_t> ids;
  for (const json& id : list)
    ids.push_back(int32_t(integer(id, "prompt", 0, std::numeric_limits<int32_t>::max())));
  return ids;
}

std::vector<Prompt> prompts(const json& value) {
  constexpr const char* kExpected =
      "expected a text, a list of texts, a list of tokens, or a list of such lists";
  if (value.is_string()) return {value.get<std::string>()};
  check_field(value.is_array() && !value.empty(), "prompt", kExpected);
  if (value[0].is_number()) return {tokens(value)};
  std::vector<Prompt> list;
  check_field(value.size() <= size_t(kMostCompletions), "prompt",
              "more than " + std::to_string(kMostCompletions) + " prompts in a request");
  for (const json& p : value) {
    check_field(p.is_string() || (p.is_array() && !p.empty()), "prompt", kExpected);
    list.push_back(p.is_string() ? Prompt(p.get<std::string>()) : tokens(p));
  }
  return list;
}

std::vector<std::string> stops(const json& value) {
  check_field(value.is_string() || value.is_array(), "stop", "expected a text or a list of texts");
  std::vector<std::string> list;
  for (const json& s : value.is_string() ? json::array({value}) : value) list.push_back(text(s, "stop"));
  check_field(list.size() <= kMostStops, "stop", "at most " + std::to_string(kMostStops) + " texts");
  for (const std::string& s : list) {
    check_field(!s.empty() && s.size() <= kLongestStop, "stop",
                "a text of 1 to " + std::to_string(kLongestStop) + " bytes");
  }
  return list;
}

void read_stream_options(const json& value, CompletionRequest& r) {
  check_field(value.is_object(), "stream_options", "expected an object");
  for (const auto& [key, v] : value.items()) {
    check_field(key == "include_usage", "stream_options", "unknown field '" + key + "'");
    r.include_usage = boolean(v, "stream_options.include_usage");
  }
}

using Read = std::function<void(const json&, CompletionRequest&)>;

// What is accepted for clients that always send it, if it asks for nothing.
Read only(const json& neutral) {
  return [neutral](const json& value, CompletionRequest&) {
    if (value != neutral) throw ApiError(400, "is not supported; leave it out, or " + neutral.dump());
  };
}

const std::map<std::string, Read>& fields() {
  static const std::map<std::string, Read> table = {
      {"model", [](const json& v, auto& r) { r.model = text(v, "model"); }},
      {"prompt", [](const json& v, auto& r) { r.prompts = prompts(v); }},
      {"max_tokens", [](const json& v, auto& r) { r.max_tokens = integer(v, "max_tokens", 0, 1 << 24); }},
      {"temperature",
       [](const json& v, auto& r) {
         r.sampling.temperature = number(v, "temperature", 0, 100, "a number from 0 to 100");
       }},
      {"top_p",
       [](const json& v, auto& r) {
         r.sampling.top_p =
             number(v, "top_p", std::numeric_limits<double>::min(), 1, "a number above 0, at most 1");
       }},
      {"top_k", [](const json& v, auto& r) { r.sampling.top_k = integer(v, "top_k", 0, 1 << 24); }},
      {"n", [](const json& v, auto& r) { r.n = integer(v, "n", 1, kMostCompletions); }},
      {"stream", [](const json& v, auto& r) { r.stream = boolean(v, "stream"); }},
      {"stream_options", read_stream_options},
      {"echo", [](const json& v, auto& r) { r.echo = boolean(v, "echo"); }},
      {"logprobs", [](const json& v, auto& r) { r.logprobs = integer(v, "logprobs", 0, kMostAlternatives); }},
      {"stop", [](const json& v, auto& r) { r.stop = stops(v); }},
      {"seed",
       [](const json& v, auto& r) {
         r.seed = uint64_t(
             integer(v, "seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
       }},
      {"recurrence", [](const json& v, auto& r) { r.recurrence = integer(v, "recurrence", 0, 1024); }},
      {"user", [](const json& v, auto&) { text(v, "user"); }},
      {"best_of",
       [](const json& v, auto& r) {
         check_field(v == r.n, "best_of", "is not supported; leave it out, or the value of n");
       }},
      {"presence_penalty", only(0)},
      {"frequency_penalty", only(0)},
      {"logit_bias", only(json::object())},
      {"suffix", only("")},
  };
  return table;
}

}  // namespace

json parse_object(std::string_view body) {
  json object;
  try {
    object = parse_json(body, "the request's body", kMaxDepth);
  } catch (const Error& e) {
    throw ApiError(400, e.what());
  }
  if (!object.is_object()) throw ApiError(400, "the request's body: expected a JSON object");
  return object;
}

CompletionRequest parse_completion(std::string_view body) {
  json object = parse_object(body);
  CompletionRequest request;
  if (object.contains("n") && !object["n"].is_null())
    fields().at("n")(object["n"], request);  // best_of looks at it
  for (const auto& [key, value] : object.items()) {
    const auto field = fields().find(key);
    if (field == fields().end())
      throw ApiError(400, "unknown field '" + key.substr(0, 100) + "'", key.substr(0, 100));
    if (value.is_null()) continue;
    try {
      field->second(value, request);
    } catch (const ApiError& e) {
      if (!e.param.empty()) throw;
      throw ApiError(e.status, key + ": " + e.what(), key);
    }
  }
  check_field(!request.prompts.empty(), "prompt", "is missing");
  check_field(int64_t(request.prompts.size()) * request.n <= kMostCompletions, "n",
              "more than " + std::to_string(kMostCompletions) + " completions in a request");
  check_field(!request.include_usage || request.stream, "stream_options", "is for stream: true alone");
  return request;
}

}  // namespace genesis
