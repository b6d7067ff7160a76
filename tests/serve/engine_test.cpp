// Continuous batching, without sockets.
#include "apps/serve/engine.h"

#include <algorithm>

#include "apps/serve/model_pool.h"
#include "kernels/common/random.h"
#include "tests/serve/served_run.h"
#include "tests/support/catch.h"

using namespace genesis;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr auto kLong = milliseconds(60'000);

struct Outcome {
  std::vector<int32_t> ids;
  std::string text;
  std::vector<float> log_probs;
  End end;
};

Outcome outcome_of(Generation& g) {
  Outcome o{};
  while (true) {
    const Generation::News news = g.wait(kLong);
    for (const GeneratedToken& t : news.tokens) {
      o.ids.push_back(t.id);
      o.text += t.text;
      if (t.log_prob) o.log_probs.push_back(*t.log_prob);
    }
    if (news.end) {
      o.end = *news.end;
      return o;
    }
    REQUIRE_FALSE(news.tokens.empty());
  }
}

class Served {
 public:
  explicit Served(int64_t slots, int64_t context = 0)
      : pool({slots, context, 2, ""}), catalogue({run.run}), model(pool.get(catalogue.find(""), 0)) {}

  GenerationRequest request(const std::string& prompt, int64_t max_tokens, double temperature,
                            uint64_t seed) const {
    GenerationRequest r;
    r.prompt = model->tokenizer->encode(prompt);
    r.prompt.insert(r.prompt.begin(), model->tokenizer->eod());
    r.max_tokens = max_tokens;
    r.sampling.temperature = temperature;
    r.seed = seed;
    return r;
  }
  // What it is when nothing else runs.
  Outcome alone(const GenerationRequest& r) const {
    auto g = std::make_shared<Generation>(r);
    model->batcher->add(g);
    while (model->batcher->step()) {
    }
    return outcome_of(*g);
  }

  ServedRun run;
  ModelPool pool;
  Catalogue catalogue;
  std::shared_ptr<ServedModel> model;
};

}  // namespace

TEST_CASE("batcher: what shares its steps with others has the tokens and log-probabilities it has alone") {
  const Served served(3);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 9; ++i) {
    const std::string prompt =
        std::string("In the beginning God created the heaven").substr(0, size_t(4 * i + 1));
    requests.push_back(served.request(prompt, 1 + 5 * (i % 4), i % 2 ? 0.9 : 0.0, uint64_t(i)));
    requests.back().top = 2;
    if (i % 3 == 0) requests.back().echo = requests.back().prompt.size();
  }
  requests[4].stop = {"the", "zzz"};
  std::vector<Outcome> alone;
  for (const auto& r : requests) alone.push_back(served.alone(r));

  Batcher& batcher = *served.model->batcher;
  std::vector<std::shared_ptr<Generation>> together;
  for (size_t i = 0; i < requests.size(); ++i) {
    together.push_back(std::make_shared<Generation>(requests[i]));
    batcher.add(together.back());
    for (size_t steps = i % 3; steps > 0; --steps) batcher.step();
  }
  while (batcher.step()) {
  }
  CHECK(batcher.unfinished() == 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    INFO("request " << i);
    const Outcome o = outcome_of(*together[i]);
    CHECK(o.ids == alone[i].ids);
    CHECK(o.text == alone[i].text);
    CHECK(o.log_probs == alone[i].log_probs);
    CHECK(o.end == alone[i].end);
    if (requests[i].echo > 0) CHECK(o.log_probs.size() + 1 == o.ids.size());  // but for the first
  }
}

TEST_CASE("batcher: ends what is cancelled, late or full, in a queue too, and gives their slots to others") {
  const Served served(1);
  Batcher& batcher = *served.model->batcher;
  const auto add = [&](GenerationRequest r) {
    auto g = std::make_shared<Generation>(std::move(r));
    batcher.add(g);
    return g;
  };
  auto running = add(served.request("In", 50, 0, 1)), waiting = add(served.request("In", 50, 0, 1));
  GenerationRequest hurried = served.request("In", 50, 0, 1);
  hurried.deadline = steady_clock::now() - milliseconds(1);
  auto late = add(hurried);
  auto last = add(served.request("In", 3, 0, 1));
  REQUIRE(batcher.step());
  CHECK(late->wait(milliseconds(0)).end == End::late);
  CHECK(batcher.unfinished() == 3);
  running->cancel();
  waiting->cancel();
  REQUIRE(batcher.step());
  CHECK(outcome_of(*running).end == End::cancelled);
  CHECK(outcome_of(*waiting).end == End::cancelled);
  while (batcher.step()) {
  }
  const Outcome o = outcome_of(*last);
  CHECK(o.end == End::length);
  CHECK(o.ids == served.alone(served.request("In", 3, 0, 1)).ids);

  // The whole of the context, and not a token more.
  const GenerationRequest full = served.request(
      "In the", batcher.room() - int64_t(served.request("In the", 1, 0, 1).prompt.size()), 1, 5);
  CHECK(served.alone(full).end != End::failed);
}

TEST_CASE("engine: takes so many and no more, and ends what is unfinished when it goes") {
  Served served(2);
  std::vector<std::shared_ptr<Generation>> some;
  {
    Engine engine(3);
    for (int i = 0; i < 3; ++i) some.push_back(std::make_shared<Generation>(served.request("In", 60, 0, 1)));
    REQUIRE(engine.submit(served.model, some));
    std::vector<std::shared_ptr<Generation>> more = {
        std::make_shared<Generation>(served.request("In", 60, 0, 1))};
    for (int i = 0; i < 3; ++i) more.push_back(std::make_shared<Generation>(served.request("In", 60, 0, 1)));
    CHECK_FALSE(engine.submit(served.model, more));
    some[0]->cancel();
  }
  for (const auto& g : some) {
    const End end = outcome_of(*g).end;
    CHECK((end == End::failed || end == End::cancelled || end == End::length || end == End::stop));
  }
}

TEST_CASE(
    "stop texts: what may be the beginning of one is held back, and of what is whole nothing is shown") {
  const auto run = [](const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
    StopText stop(stops);
    std::string shown;
    for (const std::string& piece : pieces) {
      for (const GeneratedToken& t : stop.push({1, piece})) shown += t.text;
      shown += "|";
      if (stop.stopped()) return shown + "!";
    }
    for (const GeneratedToken& t : stop.finish()) shown += t.text;
    return shown;
  };
  CHECK(run({}, {"a", "b"}) == "a|b|");
  CHECK(run({"bc"}, {"ab", "cd"}) == "|a|!");
  CHECK(run({"bc"}, {"ab", "d"}) == "|abd|");
  CHECK(run({"aab"}, {"a", "a", "a", "b"}) == "||a||!");
  CHECK(run({"xyz", "b"}, {"axy", "b"}) == "|axy|!");
  CHECK(run({"cd", "bcd"}, {"abcd"}) == "a|!");
  CHECK(run({"end"}, {"the en"}) == "|the en");
}
