// Scoring given tokens: against the training graph's loss, and the same in any company.
#include "apps/score/scorer.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/score/choices.h"
#include "apps/score/statistics.h"
#include "apps/score/text_score.h"
#include "engine/runtime/parameters.h"
#include "kernels/common/random.h"
#include "model/decoder.h"
#include "model/init.h"
#include "tests/io/small_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

namespace {

Config::Model small_model(int64_t V, bool recurrent = false) {
  Config::Model m;
  m.vocab_size = V;
  m.hidden_size = 32;
  m.heads = 2;
  m.kv_heads = 1;
  m.head_size = 16;
  m.ffn_size = 48;
  m.layers = 3;
  m.init_std = 0.3;  // so that predictions differ
  m.tie_embeddings = true;
  if (recurrent) m.recurrence = {1, 1, 1, 2};
  return m;
}

std::vector<int32_t> random_tokens(int64_t n, int64_t V, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(int32_t(random_bits(seed, 0, uint64_t(i)) % uint64_t(V)));
  return tokens;
}

// A scorer over random parameters.
struct Scoring {
  Scoring(const Config::Model& m, int64_t B, int64_t T, DType dtype, int64_t recurrence)
      : model(m), scorer(m, B, T, dtype, recurrence, storage) {
    initialise_parameters(m, 7, storage);
  }
  Config::Model model;
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage{*device};
  Scorer scorer;
};

double sum_of(const std::vector<TokenScore>& scores) {
  double sum = 0;
  for (const TokenScore& s : scores) sum += double(s.log_prob);
  return sum;
}

}  // namespace

TEST_CASE(
    "a sequence's log-probabilities are the training graph's loss, dense and at each depth of recurrence") {
  const int64_t V = 96, T = 40;
  for (const auto& [recurrent, k] : {std::pair(false, 1), std::pair(true, 1), std::pair(true, 3)}) {
    Scoring s(small_model(V, recurrent), 2, T, DType::f32, k);
    const std::vector<int32_t> tokens = random_tokens(T + 1, V, 3);
    const auto scores = s.scorer.score(std::vector<ScoredSequence>{{tokens, 1}}, 3);
    REQUIRE(scores[0].size() == size_t(T));

    std::unique_ptr<Device> device = make_cpu_device();
    Storage storage(*device);
    Executable loss(build_loss_graph(s.model, {1, T, false}, DType::f32, k), storage);
    initialise_parameters(s.model, 7, storage);
    std::vector<int32_t> positions;
    for (int32_t i = 0; i < T; ++i) positions.push_back(i);
    storage.write(kTokens, tokens.data(), size_t(T) * sizeof(int32_t));
    storage.write(kTargets, tokens.data() + 1, size_t(T) * sizeof(int32_t));
    storage.write(kPositions, positions.data(), size_t(T) * sizeof(int32_t));
    loss.run(Phase::begin);
    loss.run(Phase::micro);
    LossSum sums;
    storage.read(kLossAndCount, &sums, sizeof sums);
    CHECK(-sum_of(scores[0]) == Approx(sums.total_loss()).epsilon(1e-6));

    for (size_t i = 0; i < scores[0].size(); ++i) {
      const TokenScore& score = scores[0][i];
      REQUIRE(score.top.size() == 3);
      CHECK(score.top[0].second >= score.top[1].second);
      CHECK(score.greedy == (score.top[0].first == tokens[i + 1]));
      CHECK(score.log_prob <= score.top[0].second);
      if (score.greedy) CHECK(score.log_prob == Approx(score.top[0].second).margin(1e-6));
    }
  }
}

TEST_CASE("a sequence's scores have the same bits alone and in any company") {
  const int64_t V = 160, T = 200;
  for (DType dtype : {DType::f32, DType::bf16}) {
    Scoring s(small_model(V), 3, T, dtype, 1);
    std::vector<ScoredSequence> sequences;
    for (uint64_t i = 0; i < 40; ++i) {
      const int64_t n = 2 + int64_t(random_bits(9, 0, i) % uint64_t(i % 5 == 0 ? T : 60));
      const int64_t first = 1 + int64_t(random_bits(9, 1, i) % uint64_t(n - 1));
      sequences.push_back({random_tokens(n, V, i), first});
    }
    const auto together = s.scorer.score(sequences);
    int64_t differing = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const auto alone = s.scorer.score(std::span(&sequences[i], 1));
      REQUIRE(alone[0].size() == together[i].size());
      REQUIRE(alone[0].size() == sequences[i].tokens.size() - size_t(sequences[i].first));
      for (size_t t = 0; t < alone[0].size(); ++t) {
        differing += alone[0][t].log_prob != together[i][t].log_prob;
      }
    }
    CHECK(differing == 0);
  }
}

TEST_CASE("an output that is not finite is an error") {
  Scoring s(small_model(64), 1, 64, DType::f32, 1);
  set_parameter(s.storage, "norm.weight", std::vector<float>(32, NAN));
  CHECK(lacks(message_of([&] {
                s.scorer.score(std::vector<ScoredSequence>{{{1, 2, 3}, 1}});
              }),
              "not finite") == "");
}

TEST_CASE("the bootstrap's interval is the normal one where that holds, and the same each time") {
  std::vector<RatioUnit> units;
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const double x = double(random_uniform(4, 0, i));
    units.push_back({x, 1});
    sum += x;
    squares += x * x;
  }
  const double n = 3000, mean = sum / n, error = std::sqrt((squares / n - mean * mean) / n);
  const Interval i = bootstrap_interval(units);
  CHECK(ratio_of(units) == Approx(mean));
  CHECK(i.low == Approx(mean - 1.96 * error).margin(0.1 * error));
  CHECK(i.high == Approx(mean + 1.96 * error).margin(0.1 * error));
  CHECK(bootstrap_interval(units).low == i.low);
  CHECK(std::isnan(bootstrap_interval(std::span(units).first(1)).low));

  // Ten times as many, which are put together first; and sizes weigh.
  std::vector<RatioUnit> many;
  for (uint64_t u = 0; u < 30000; ++u) many.push_back({double(random_uniform(5, 0, u)), 1});
  const Interval narrow = bootstrap_interval(many);
  CHECK((narrow.high - narrow.low) * std::sqrt(10.) == Approx(i.high - i.low).epsilon(0.1));
  CHECK(ratio_of(std::vector<RatioUnit>{{1, 1}, {0, 3}}) == 0.25);
}

TEST_CASE("windows score each token of a document once, whatever their overlap") {
  TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  const std::string text = design_page().substr(0, 6000);
  CorpusOptions corpus;
  for (size_t i = 0; i < 12; ++i) {
    corpus.files.push_back(folder.put(fmt::format("d{}", i), text.substr(i * 500, 500)));
  }
  const Config::Model m = small_model(tokenizer.vocab_size());
  Scoring whole(m, 1, 512, DType::f32, 1), parts(m, 4, 64, DType::f32, 1);
  const auto score = [&](Scorer& scorer, const WindowOptions& w) {
    const auto source = documents_of(corpus, tokenizer);
    int64_t told = 0;
    const TextScore s = score_text(*source, w, {&scorer}, [&](int64_t n) { told += n; })[0];
    CHECK(told == s.tokens);
    return s;
  };
  const TextScore all = score(whole.scorer, {.T = 512});
  CHECK(all.documents == 12);
  CHECK(all.bytes == 6000);
  CHECK_FALSE(all.over_windows);
  CHECK(all.units == 12);
  CHECK((all.loss_interval.low < all.loss && all.loss < all.loss_interval.high));
  CHECK(all.bits_per_byte == Approx(all.loss * double(all.tokens) / std::log(2.) / 6000));
  // All but one token of a window are context: each token has the T - 1 before it at least, or all there are.
  const TextScore most_context = score(parts.scorer, {.T = 64, .overlap = 63});
  for (int64_t overlap : {0, 1, 32, 63}) {
    const TextScore s = score(parts.scorer, {.T = 64, .overlap = overlap});
    CHECK(s.tokens == all.tokens);
    CHECK(s.bytes == all.bytes);
  }
  CHECK(most_context.loss != all.loss);  // the context was cut
  const TextScore few = score(parts.scorer, {.T = 64, .most_tokens = 100});
  CHECK((few.tokens >= 100 && few.tokens < 164));
  CHECK(few.over_windows);
}

TEST_CASE("questions are read from HellaSwag's layout and others, and bad ones are named") {
  TempFolder folder;
  const auto read = [&](const std::string& lines) { return read_questions(folder.put("q.jsonl", lines)); };
  const auto hellaswag = read(
      R"({"ind": 24, "activity_label": "Roof shingle removal", "ctx_a": "A man is sitting on a roof.", "ctx_b": "he",)"
      R"( "ctx": "A man is sitting on a roof. he", "split": "val", "split_type": "indomain", "label": 3,)"
      R"( "endings": ["is using wrap.", "is ripping tiles off.", "is holding a cube.", "starts pulling up roofing."],)"
      R"( "source_id": "activitynet~v_-JhWjGDPHMY"})"
      "\n\n"
      R"({"query": "q", "choices": ["a", "b"], "gold": "1"})"
      "\r\n");
  REQUIRE(hellaswag.size() == 2);
  CHECK(hellaswag[0].context == "A man is sitting on a roof. he");
  CHECK(hellaswag[0].endings.size() == 4);
  CHECK(hellaswag[0].label == 3);
  CHECK(hellaswag[1].label == 1);

  const std::string good = R"({"context": "c", "endings": ["a", "b"], "label": 0})"
                           "\n";
  const std::pair<const char*, const char*> bad[] = {
      {"{", "q.jsonl:2: not JSON"},
      {"[1]", "expected a JSON object"},
      {R"({"endings": ["a", "b"], "label": 0})", "'context'"},
      {R"({"context": "c", "endings": ["a"], "label": 0})", "two or more"},
      {R"({"context": "c", "endings": ["a", ""], "label": 0})", "not empty"},
      {R"({"context": "c", "endings": ["a", "b"]})", "'label'"},
      {R"({"context": "c", "endings": ["a", "b"], "label": 2})", "0 to 1, found 2"},
      {R"({"context": "c", "endings": ["a", "b"], "label": ""})", "test part"},
      {R"({"context": "c", "endings": ["a", "b"], "label": 1.5})", "found 1.5"}};
  for (const auto& [line, message] : bad)
    CHECK(lacks(message_of([&] { read(good + line + "\n"); }), message) == "");
  CHECK(lacks(message_of([&] { read("\n"); }), "no question") == "");
  CHECK(lacks(message_of([&] { read_questions(folder.file("none")); }), "cannot read") == "");
}

TEST_CASE("the likeliest ending is chosen, by sum and by length, whatever the order of the questions") {
  TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  Scoring s(small_model(tokenizer.vocab_size()), 2, 128, DType::f32, 1);
  std::vector<Question> questions;
  std::string page = design_page();
  std::erase_if(page, [](char c) { return c < 0; });  // no character is cut in two
  for (size_t i = 0; i < 70; ++i) {
    Question q{page.substr(i * 40, 35), {}, i % 3};
    for (size_t e = 0; e < 3; ++e) q.endings.push_back(page.substr(3000 + i * 60 + e * 20, 6 + 5 * e) + ".");
    questions.push_back(q);
  }
  // One at a time, in the plainest way.
  int64_t right = 0, right_norm = 0;
  for (const Question& q : questions) {
    size_t best = 0, best_norm = 0;
    std::vector<double> sums, norms;
    for (size_t e = 0; e < 3; ++e) {
      const ScoredSequence sequence = sequence_of(q, e, tokenizer, 128);
      const auto scored = std::span(sequence.tokens).subspan(size_t(sequence.first));
      CHECK(lacks(tokenizer.decode(scored), q.endings[e]) == "");
      sums.push_back(sum_of(s.scorer.score(std::span(&sequence, 1))[0]));
      const bool spaced = q.endings[e][0] == ' ' || q.endings[e][0] == '\n';
      norms.push_back(sums[e] / double(q.endings[e].size() - (spaced ? 1 : 0)));
      if (sums[e] > sums[best]) best = e;
      if (norms[e] > norms[best_norm]) best_norm = e;
    }
    right += best == q.label;
    right_norm += best_norm == q.label;
  }
  int64_t told = 0;
  const ChoiceScore score =
      score_choices(questions, tokenizer, 128, {&s.scorer}, [&](int64_t n) { told += n; })[0];
  CHECK(told == 70);
  CHECK(score.questions == 70);
  CHECK(score.accuracy == Approx(double(right) / 70));
  CHECK(score.accuracy_norm == Approx(double(right_norm) / 70));
  CHECK((score.accuracy_interval.low < score.accuracy && score.accuracy < score.accuracy_interval.high));
  CHECK(score.cut == 0);
  std::reverse(questions.begin(), questions.end());
  CHECK(score_choices(questions, tokenizer, 128, {&s.scorer}, [](int64_t) {})[0].accuracy == score.accuracy);
}

TEST_CASE("a context that does not fit loses its beginning, an ending that does not fit is an error") {
  TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  const Question q{design_page().substr(0, 2000), {"one ending", design_page().substr(0, 1000)}, 0};
  const ScoredSequence whole = sequence_of(q, 0, tokenizer, 4000), cut = sequence_of(q, 0, tokenizer, 64);
  CHECK(cut.tokens.size() == 65);
  CHECK(std::equal(cut.tokens.begin(), cut.tokens.end(), whole.tokens.end() - 65));
  CHECK(cut.tokens.size() - size_t(cut.first) == whole.tokens.size() - size_t(whole.first));
  CHECK(lacks(message_of([&] { sequence_of(q, 1, tokenizer, 64); }), "longer than the 64") == "");
}
