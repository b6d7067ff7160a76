#include "apps/serve/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "apps/serve/api_error.h"
#include "io/utf8.h"
#include "kernels/common/random.h"

namespace genesis {
namespace {

using Json = nlohmann::ordered_json;

uint64_t random_number() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !utf8_continues(c); });
}

// A document begins after an end-of-document token, as in training: it goes before a prompt that has none there.
GenerationRequest begin_of(const Prompt& prompt, const Tokenizer& tokenizer, int64_t vocabulary, bool echo) {
  GenerationRequest g;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    g.prompt = tokenizer.encode(*text);
  } else {
    g.prompt = std::get<std::vector<int32_t>>(prompt);
    for (const int32_t id : g.prompt) {
      check_field(id < std::min<int64_t>(vocabulary, tokenizer.vocab_size()), "prompt",
                  fmt::format("token {} is not one of the model's {}", id, tokenizer.vocab_size()));
    }
  }
  g.echo = echo ? g.prompt.size() : 0;
  const bool has = std::holds_alternative<std::vector<int32_t>>(prompt) && !g.prompt.empty() &&
                   g.prompt[0] == tokenizer.eod();
  if (!has) g.prompt.insert(g.prompt.begin(), tokenizer.eod());
  return g;
}

}  // namespace

Completion::Completion(const CompletionRequest& request, std::shared_ptr<ServedModel> model,
                       const std::string& name, std::chrono::steady_clock::time_point deadline,
                       Engine& engine)
    : model_(std::move(model)),
      model_name_(name),
      id_(fmt::format("cmpl-{:016x}", random_number())),
      created_(seconds_since_1970()),
      logprobs_(request.logprobs),
      include_usage_(request.include_usage) {
  const uint64_t seed = request.seed.value_or(random_number());
  std::vector<std::shared_ptr<Generation>> generations;
  for (const Prompt& prompt : request.prompts) {
    GenerationRequest g = begin_of(prompt, *model_->tokenizer, model_->model->vocab_size(), request.echo);
    const int64_t room = model_->batcher->room();
    check_field(
        int64_t(g.prompt.size()) + request.max_tokens <= room, "prompt",
        fmt::format(
            "has {} tokens with the one that begins a document, and max_tokens is {}: the model takes {} "
            "together",
            g.prompt.size(), request.max_tokens, room));
    prompt_tokens_ += int64_t(g.prompt.size());
    g.max_tokens = request.max_tokens;
    g.sampling = request.sampling;
    g.top = request.logprobs;
    g.stop = request.stop;
    g.deadline = deadline;
    for (int64_t i = 0; i < request.n; ++i) {
      // The first is what it is without others.
      g.seed = generations.empty() ? seed : random_bits(seed, 1, generations.size());
      generations.push_back(std::make_shared<Generation>(g));
      choices_.emplace_back(generations.back());
    }
  }
  if (!engine.submit(model_, generations)) {
    throw ApiError(429,
                   fmt::format("the server has {} completions to do, and takes no more now: try again later",
                               engine.unfinished()));
  }
}

Completion::~Completion() {
  for (const Choice& c : choices_) c.generation->cancel();
}

std::optional<Json> Completion::next(std::chrono::milliseconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  while (!done_) {
    // Each choice in turn; all are looked at before time is spent on one.
    for (size_t i = 0; i < choices_.size(); ++i, ++turn_) {
      Choice& c = choices_[turn_ % choices_.size()];
      if (c.end) continue;
      const Generation::News news = c.generation->wait(std::chrono::milliseconds(0));
      if (news.tokens.empty() && !news.end) continue;
      try {
        throw_if_failed(news);
      } catch (const ApiError& e) {
        done_ = true;
        return json_of(e);
      }
      c.end = news.end;
      Json piece = head();
      piece["choices"] = Json::array({choice_of(turn_ % choices_.size(), news.tokens)});
      ++turn_;
      return piece;
    }
    const auto open = std::find_if(choices_.begin(), choices_.end(), [](const Choice& c) { return !c.end; });
    if (open == choices_.end()) {
      if (include_usage_ && !usage_sent_) {
        usage_sent_ = true;
        Json piece = head();
        piece["choices"] = Json::array();
        piece["usage"] = usage();
        return piece;
      }
      done_ = true;
      break;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    open->generation->wait_for_news(left);
  }
  return std::nullopt;
}

std::optional<Json> Completion::whole(std::chrono::milliseconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  for (Choice& c : choices_) {
    while (!c.end) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      Generation::News news = c.generation->wait(std::max(left, std::chrono::milliseconds(0)));
      throw_if_failed(news);
      std::move(news.tokens.begin(), news.tokens.end(), std::back_inserter(c.tokens));
      c.end = news.end;
      if (!c.end && left.count() <= 0) return std::nullopt;
    }
  }
  Json answer = head();
  answer["choices"] = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) answer["choices"].push_back(choice_of(i, choices_[i].tokens));
  answer["usage"] = usage();
  done_ = true;
  return answer;
}

void Completion::throw_if_failed(const Generation::News& news) const {
  if (!news.end) return;
  if (*news.end == End::failed) throw ApiError(500, news.error);
  if (*news.end == End::late) throw ApiError(503, "the completion took longer than the server allows");
  if (*news.end == End::cancelled) throw ApiError(503, "the completion was cancelled");
}

Json Completion::head() const {
  return {{"id", id_}, {"object", "text_completion"}, {"created", created_}, {"model", model_name_}};
}

Json Completion::choice_of(size_t index, const std::vector<GeneratedToken>& tokens) {
  Choice& c = choices_[index];
  std::string text;
  for (const GeneratedToken& t : tokens) {
    text += t.text;
    made_tokens_ += !t.of_prompt;
  }
  Json reason;
  if (c.end) reason = *c.end == End::stop ? "stop" : "length";
  Json choice = {{"index", index},
                 {"text", text},
                 {"logprobs", logprobs_ ? log_probs_of(tokens, c.offset) : Json()},
                 {"finish_reason", reason}};
  c.offset += characters(text);
  return choice;
}

Json Completion::log_probs_of(const std::vector<GeneratedToken>& tokens, int64_t offset) const {
  Json names = Json::array(), log_probs = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const GeneratedToken& t : tokens) {
    names.push_back(name_of(t.id));
    log_probs.push_back(t.log_prob ? Json(*t.log_prob) : Json());
    tops.push_back(t.log_prob ? top_of(t) : Json());
    offsets.push_back(offset);
    offset += characters(t.text);
  }
  return {{"tokens", names}, {"token_logprobs", log_probs}, {"top_logprobs", tops}, {"text_offset", offsets}};
}

// Of tokens that look the same the likeliest, which comes first.
Json Completion::top_of(const GeneratedToken& token) const {
  Json top = Json::object();
  for (const auto& [id, log_prob] : token.top) {
    const std::string name = name_of(id);
    if (!top.contains(name)) top[name] = log_prob;
  }
  if (const std::string name = name_of(token.id); !top.contains(name)) top[name] = *token.log_prob;
  return top;
}

// Its text; where that is no whole characters, its bytes in OpenAI's way of writing.
std::string Completion::name_of(int32_t token) const {
  const std::string text = model_->tokenizer->decode({&token, 1});
  if (token == model_->tokenizer->eod()) return kEndOfText;
  if (utf8_valid_prefix(text) == text.size()) return text;
  std::string name = "bytes:";
  for (const char c : text) name += fmt::format("\\x{:02x}", uint8_t(c));
  return name;
}

Json Completion::usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", made_tokens_},
          {"total_tokens", prompt_tokens_ + made_tokens_}};
}

}  // namespace genesis
