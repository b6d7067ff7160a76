// The API's requests and answers, without sockets.
#include "apps/serve/completion.h"

#include "apps/score/scorer.h"
#include "apps/serve/api_error.h"
#include "apps/serve/model_pool.h"
#include "apps/train/checkpoints.h"
#include "kernels/common/random.h"
#include "tests/serve/served_run.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;
using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

namespace {

constexpr auto kNever = std::chrono::steady_clock::time_point::max();

std::string refusal(const std::string& body) {
  return message_of([&] { parse_completion(body); });
}

}  // namespace

TEST_CASE("completions: a request is read whole or refused by the name of its field") {
  const CompletionRequest r = parse_completion(
      R"({"model":"m","prompt":["a",[1,2]],"max_tokens":0,"temperature":0.5,"top_p":0.9,"n":2,"stream":true,)"
      R"("stream_options":{"include_usage":true},"echo":true,"logprobs":3,"stop":"x","seed":-7,"user":"u",)"
      R"("best_of":2,"presence_penalty":0,"logit_bias":null,"suffix":null,"recurrence":4})");
  CHECK(r.model == "m");
  CHECK(r.prompts == std::vector<Prompt>{"a", std::vector<int32_t>{1, 2}});
  CHECK(r.max_tokens == 0);
  CHECK(r.n == 2);
  CHECK((r.stream && r.include_usage && r.echo));
  CHECK(r.logprobs == 3);
  CHECK(r.stop == std::vector<std::string>{"x"});
  CHECK(r.recurrence == 4);
  CHECK(parse_completion(R"({"prompt":[5]})").prompts == std::vector<Prompt>{std::vector<int32_t>{5}});

  CHECK(lacks(refusal("{"), "the request's body") == "");
  CHECK(lacks(refusal("[]"), "a JSON object") == "");
  CHECK(lacks(refusal("{}"), "prompt: is missing") == "");
  for (const char* prompt :
       {"1", "[]", "[[]]", "[1,\"a\"]", "[\"a\",1]", "[-1]", "[1.5]", "[99999999999]", "{}", "true"}) {
    INFO(prompt);
    CHECK(refusal(std::string("{\"prompt\":") + prompt + "}").starts_with("prompt: "));
  }
  const std::vector<std::pair<std::string, std::string>> wrong = {{"max_tokens", "-1"},
                                                                  {"max_tokens", "1e3"},
                                                                  {"max_tokens", "18446744073709551615"},
                                                                  {"temperature", "-0.1"},
                                                                  {"temperature", "\"1\""},
                                                                  {"top_p", "0"},
                                                                  {"top_p", "1.1"},
                                                                  {"n", "0"},
                                                                  {"n", "257"},
                                                                  {"logprobs", "21"},
                                                                  {"logprobs", "true"},
                                                                  {"stop", "[\"\"]"},
                                                                  {"stop", "5"},
                                                                  {"stop", "[1]"},
                                                                  {"seed", "1.5"},
                                                                  {"stream", "1"},
                                                                  {"best_of", "3"},
                                                                  {"presence_penalty", "0.5"},
                                                                  {"logit_bias", "{\"5\":1}"},
                                                                  {"suffix", "\"x\""},
                                                                  {"stream_options", "{\"x\":1}"},
                                                                  {"echo", "\"yes\""},
                                                                  {"model", "[]"}};
  for (const auto& [field, value] : wrong) {
    INFO(field << " " << value);
    CHECK(refusal("{\"prompt\":\"a\",\"" + field + "\":" + value + "}").starts_with(field + ": "));
  }
  CHECK(lacks(refusal(R"({"prompt":"a","temprature":0})"), "unknown field 'temprature'") == "");
}

TEST_CASE("completions: a refusal is UTF-8, whatever it quotes") {
  std::string long_key = "{\"";
  for (int i = 0; i < 60; ++i) long_key += "\xc3\xa9x";  // is cut in the middle of a character
  for (const std::string& body : {std::string("{\"\xff"), std::string("\xc3{"), long_key + "\":1}"}) {
    try {
      parse_completion(body);
      FAIL("it is refused");
    } catch (const ApiError& e) {
      CHECK(Json::parse(json_of(e).dump())["error"]["type"] == "invalid_request_error");
    }
  }
}

TEST_CASE("completions: echo with logprobs gives the log-probabilities that genesis_eval does") {
  const ServedRun run({"--device.dtype=f32"});
  ModelPool pool({4, 0, 2, ""});
  Engine engine(16);
  const CatalogueEntry entry = Catalogue({run.run}).find("");
  const auto model = pool.get(entry, 0);
  const std::string text = "In the beginning God created the earth. \xc3\xa9";
  const std::vector<int32_t> ids = model->tokenizer->encode(text);

  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage(*device);
  const Config config = parse_config(read_checkpoint_state(entry.checkpoint).config, "config");
  Scorer scorer(config.model, 1, 64, DType::f32, 2, storage);
  load_parameters(entry.checkpoint, storage);
  ScoredSequence sequence{{model->tokenizer->eod()}, 1};
  sequence.tokens.insert(sequence.tokens.end(), ids.begin(), ids.end());
  const auto scores = scorer.score(std::vector{sequence}, 1)[0];

  // As a text and as tokens, with and without the token that begins a document.
  std::vector<int32_t> begun = sequence.tokens;
  for (const Json& prompt : {Json(text), Json(ids), Json(begun)}) {
    const Json body = {
        {"prompt", prompt}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 1}, {"temperature", 0}};
    Completion completion(parse_completion(body.dump()), model, entry.id, kNever, engine);
    const Json answer = *completion.whole(milliseconds(60'000));
    const Json& choice = answer["choices"][0];
    const Json& log_probs = choice["logprobs"];
    const size_t skipped = prompt.is_array() && prompt.size() == begun.size();
    REQUIRE(log_probs["tokens"].size() == ids.size() + skipped + 1);
    if (skipped) CHECK(log_probs["token_logprobs"][0].is_null());
    for (size_t i = 0; i < ids.size(); ++i) {
      CHECK(std::abs(log_probs["token_logprobs"][i + skipped].get<double>() - double(scores[i].log_prob)) <
            1e-5);
      double best = -1e9;
      for (const auto& [name, value] : log_probs["top_logprobs"][i + skipped].items())
        best = std::max(best, value.get<double>());
      CHECK((best == log_probs["token_logprobs"][i + skipped].get<double>()) == scores[i].greedy);
    }
    CHECK(choice["text"].get<std::string>().starts_with(text));
    CHECK(log_probs["text_offset"][1 + skipped] == log_probs["tokens"][skipped].get<std::string>().size());
    CHECK(answer["usage"]["prompt_tokens"] == begun.size());
    CHECK(answer["usage"]["completion_tokens"] == 1);
    CHECK(answer["object"] == "text_completion");
    CHECK(choice["finish_reason"] == "length");
  }
}

TEST_CASE("completions: the pieces of a stream are the whole answer, and a seed gives the same again") {
  const ServedRun run;
  ModelPool pool({3, 0, 2, ""});
  Engine engine(16);
  const CatalogueEntry entry = Catalogue({run.run}).find("");
  const auto model = pool.get(entry, 0);
  const std::string body =
      R"({"prompt":["In the","And"],"n":2,"max_tokens":12,"seed":3,"logprobs":2,"stop":["z"],)";
  Completion plain(parse_completion(body + R"("echo":false})"), model, "m", kNever, engine);
  const Json whole = *plain.whole(milliseconds(60'000));
  REQUIRE(whole["choices"].size() == 4);
  CHECK(whole["choices"][0]["text"] != whole["choices"][1]["text"]);

  Completion streamed(parse_completion(body + R"("stream":true,"stream_options":{"include_usage":true}})"),
                      model, "m", kNever, engine);
  std::vector<Json> choices(4);
  Json usage;
  while (!streamed.done()) {
    const auto piece = streamed.next(milliseconds(60'000));
    if (!piece) continue;
    CHECK_FALSE(piece->contains("error"));
    if (piece->contains("usage")) usage = (*piece)["usage"];
    for (const Json& c : (*piece)["choices"]) {
      Json& all = choices[c["index"].get<size_t>()];
      if (all.is_null()) {
        all = c;
        continue;
      }
      all["text"] = all["text"].get<std::string>() + c["text"].get<std::string>();
      all["finish_reason"] = c["finish_reason"];
      for (const auto& [key, list] : c["logprobs"].items()) {
        for (const Json& x : list) all["logprobs"][key].push_back(x);
      }
    }
  }
  for (size_t i = 0; i < 4; ++i) CHECK(choices[i] == whole["choices"][i]);
  CHECK(usage == whole["usage"]);
}

TEST_CASE("completions: what the model can't take is refused before anything is done") {
  const ServedRun run;
  ModelPool pool({2, 0, 1, ""});
  Engine engine(2);
  const Catalogue catalogue({run.run, run.run + "/checkpoints/step_00000010"});
  CHECK(catalogue.list().size() == 5);  // the run and its two, the checkpoint twice
  CHECK(catalogue.find("run-2/step_00000010").step == 10);
  CHECK(catalogue.find("run").step == 20);
  for (const char* name : {"run/step_00000015", "run/../run", "../run", "/etc/passwd",
                           "run/step_00000010/../step_00000020", "run/"}) {
    INFO(name);
    CHECK(lacks(message_of([&] { catalogue.find(name); }), "there is no model") == "");
  }
  const auto model = pool.get(catalogue.find(""), 0);
  const auto refused = [&](const std::string& body) {
    return message_of([&] { Completion(parse_completion(body), model, "m", kNever, engine); });
  };
  CHECK(lacks(refused(R"({"prompt":"In","max_tokens":100})"), "the model takes 65 together") == "");
  CHECK(lacks(refused(R"({"prompt":[300]})"), "token 300 is not one of the model's 300") == "");
  CHECK(lacks(refused(R"({"prompt":"In","n":3})"), "takes no more now") == "");
  CHECK(engine.unfinished() == 0);
  // The only model is at work.
  CHECK(lacks(message_of([&] { pool.get(catalogue.find(""), 1); }), "are at work") == "");
}
