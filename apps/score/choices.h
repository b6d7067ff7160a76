// Multiple choice: which of some endings a model finds likeliest after a context.
//
// A line of a file is a JSON object with a context ("context", "ctx", "query" or "question"), its endings
// ("endings" or "choices", two or more texts) and the number of the right one, from 0 ("label", "gold" or
// "answer"; a number, or its digits as text). Other fields are left alone, so that HellaSwag's own files
// (https://github.com/rowanz/hellaswag) are read as they are. A space goes between a context and an ending unless
// one of them brings it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "apps/score/scorer.h"
#include "apps/score/statistics.h"
#include "io/tokenizer.h"

namespace genesis {

struct Question {
  std::string context;
  std::vector<std::string> endings;
  size_t label = 0;
};

// Throws Error that names file, line and what is wrong with it: what is missing, a label that is no ending's.
std::vector<Question> read_questions(const std::string& path);

struct ChoiceScore {
  int64_t questions = 0;
  double accuracy = 0;       // the ending of the highest log-probability is the right one
  double accuracy_norm = 0;  // the same, each divided by the ending's number of characters
  Interval accuracy_interval, norm_interval;
  int64_t cut = 0;  // endings whose context did not fit, and lost its beginning
};

// A context and one ending as tokens: the end-of-document token, then the text, of which the ending is scored, with
// a token that begins in the context and ends in the ending. Longer than T + 1 tokens it loses its beginning, all
// of the context but one token if need be.
ScoredSequence sequence_of(const Question& question, size_t ending, const Tokenizer& tokenizer, int64_t T);

// With each scorer; `done` is told how many questions more are answered. Of equal scores the first ending counts.
// Throws Error, naming the question, where an ending alone is longer than T tokens.
std::vector<ChoiceScore> score_choices(std::span<const Question> questions, const Tokenizer& tokenizer,
                                       int64_t T, std::vector<Scorer*> scorers,
                                       const std::function<void(int64_t)>& done);

}  // namespace genesis
