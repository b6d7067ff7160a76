#include "apps/score/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "io/json.h"
#include "io/utf8.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

using Json = nlohmann::json;

constexpr size_t kQuestionsAtOnce = 64;

// The value of the first of these keys that is there.
const Json* find(const Json& line, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const auto it = line.find(key); it != line.end()) return &*it;
  }
  return nullptr;
}

size_t label_of(const Json& value, size_t endings, const std::string& where) {
  int64_t label = -1;
  if (value.is_number_integer()) label = value.get<int64_t>();
  if (value.is_string()) {
    const std::string digits = value.get<std::string>();
    const bool number =
        !digits.empty() && digits.size() < 9 && digits.find_first_not_of("0123456789") == std::string::npos;
    check(number, where + ": expected the number of the right ending, found '" + digits +
                      "': a file without answers, such as a test part, can't be scored");
    label = std::stoll(digits);
  }
  check(label >= 0 && size_t(label) < endings,
        fmt::format("{}: expected the number of the right ending, 0 to {}, found {}", where, endings - 1,
                    value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  return size_t(label);
}

Question question_of(const std::string& line, const std::string& where) {
  const Json json = parse_json(line, where, 8);
  check(json.is_object(), where + ": expected a JSON object");
  const Json* context = find(json, {"context", "ctx", "query", "question"});
  const Json* endings = find(json, {"endings", "choices"});
  const Json* label = find(json, {"label", "gold", "answer"});
  check(context != nullptr && context->is_string(),
        where + ": expected a text 'context' (or ctx, query, question)");
  const bool texts = endings != nullptr && endings->is_array() && endings->size() >= 2 &&
                     std::all_of(endings->begin(), endings->end(), [](const Json& e) {
                       return e.is_string() && !e.get_ref<const std::string&>().empty();
                     });
  check(texts, where + ": expected 'endings' (or choices), a list of two or more texts that are not empty");
  check(label != nullptr, where + ": expected a 'label' (or gold, answer), the number of the right ending");
  Question q{context->get<std::string>(), endings->get<std::vector<std::string>>(), 0};
  q.label = label_of(*label, q.endings.size(), where);
  return q;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

// Characters, of which an ending's own space is none.
double length_of(const std::string& ending) {
  const size_t begin = is_space(ending[0]) ? 1 : 0;
  const auto n = std::count_if(ending.begin() + std::ptrdiff_t(begin), ending.end(),
                               [](char c) { return !utf8_continues(c); });
  return double(std::max<std::ptrdiff_t>(1, n));
}

struct Answers {
  std::vector<RatioUnit> plain, normalised;  // a question each: 1 where the answer is right

  void add(const Question& q, std::span<const double> log_probs) {
    const auto right = [&](auto score) {
      size_t best = 0;
      for (size_t e = 1; e < q.endings.size(); ++e) {
        if (score(e) > score(best)) best = e;
      }
      return RatioUnit{best == q.label ? 1. : 0., 1.};
    };
    plain.push_back(right([&](size_t e) { return log_probs[e]; }));
    normalised.push_back(right([&](size_t e) { return log_probs[e] / length_of(q.endings[e]); }));
  }
};

}  // namespace

std::vector<Question> read_questions(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  check(file.is_open(), "cannot read " + path);
  std::vector<Question> questions;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    questions.push_back(question_of(line, fmt::format("{}:{}", path, number)));
  }
  check(!file.bad(), "cannot read " + path);
  check(!questions.empty(), path + ": it holds no question");
  return questions;
}

ScoredSequence sequence_of(const Question& q, size_t ending, const Tokenizer& tokenizer, int64_t T) {
  const std::string& end = q.endings[ending];
  const bool joined = q.context.empty() || is_space(q.context.back()) || is_space(end[0]);
  const std::string text = q.context + (joined ? "" : " ") + end;
  ScoredSequence s{{tokenizer.eod()}, 1};
  const std::vector<int32_t> ids = tokenizer.encode(text);
  s.tokens.insert(s.tokens.end(), ids.begin(), ids.end());
  // Tokens that end within the context are not scored.
  for (size_t bytes = 0; s.first < int64_t(s.tokens.size()) - 1; ++s.first) {
    bytes += tokenizer.decode({&s.tokens[size_t(s.first)], 1}).size();
    if (bytes > q.context.size()) break;
  }
  const int64_t over = int64_t(s.tokens.size()) - (T + 1);
  if (over <= 0) return s;
  check(over < s.first,
        fmt::format("an ending of {} tokens is longer than the {} that the model sees at a time: {}",
                    int64_t(s.tokens.size()) - s.first, T, end.substr(0, 80)));
  s.tokens.erase(s.tokens.begin(), s.tokens.begin() + over);
  s.first -= over;
  return s;
}

std::vector<ChoiceScore> score_choices(std::span<const Question> questions, const Tokenizer& tokenizer,
                                       int64_t T, std::vector<Scorer*> scorers,
                                       const std::function<void(int64_t)>& done) {
  std::vector<Answers> answers(scorers.size());
  int64_t cut = 0;
  for (size_t begin = 0; begin < questions.size(); begin += kQuestionsAtOnce) {
    const auto some = questions.subspan(begin, std::min(kQuestionsAtOnce, questions.size() - begin));
    std::vector<ScoredSequence> sequences;
    for (const Question& q : some) {
      for (size_t e = 0; e < q.endings.size(); ++e) {
        sequences.push_back(sequence_of(q, e, tokenizer, T));
        cut += sequences.back().tokens[0] != tokenizer.eod();
      }
    }
    for (size_t s = 0; s < scorers.size(); ++s) {
      std::vector<double> log_probs;
      for (const auto& tokens : scorers[s]->score(sequences)) {
        double sum = 0;
        for (const TokenScore& token : tokens) sum += double(token.log_prob);
        log_probs.push_back(sum);
      }
      size_t next = 0;
      for (const Question& q : some) {
        answers[s].add(q, std::span(log_probs).subspan(next, q.endings.size()));
        next += q.endings.size();
      }
    }
    done(int64_t(some.size()));
  }
  std::vector<ChoiceScore> results;
  for (const Answers& a : answers) {
    results.push_back({int64_t(a.plain.size()), ratio_of(a.plain), ratio_of(a.normalised),
                       bootstrap_interval(a.plain), bootstrap_interval(a.normalised), cut});
  }
  return results;
}

}  // namespace genesis
