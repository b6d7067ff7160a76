// genesis_eval as its user meets it.
#include <nlohmann/json.hpp>

#include "io/run_metrics.h"
#include "tests/apps/shell.h"
#include "tests/io/small_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

// A run of a recurrent model on the design page, evaluated at two depths, its checkpoints at steps 4 and 8.
void train_page(const Shell& shell) {
  shell.folder.put("page.md", design_page());
  shell.folder.put(
      "c.yaml",
      "run_dir: run\n"
      "model: {vocab_size: 512, hidden_size: 32, layers: 3, heads: 2, kv_heads: 1, head_size: 16,\n"
      "        ffn_size: 64, tie_embeddings: true, recurrence: {prelude: 1, core: 1, coda: 1, steps: 2}}\n"
      "data: {train: train, validation: valid, tokenizer: t.model, sequence_length: 48}\n"
      "train: {steps: 8, batch_size: 4, micro_batch: 4}\n"
      "optim: {lr: 1e-2}\n"
      "checkpoint: {every: 4, keep: 0}\n"
      "eval: {every: 4, overlap: 16, recurrence: [1, 2]}\n"
      "device: {dtype: f32}\n");
  const auto run = [&](const std::string& command) {
    const std::string in = "cd " + shell.folder.path().string() + " && " + GENESIS_BIN_DIR + "/";
    REQUIRE(std::system((in + command + " >/dev/null 2>&1").c_str()) == 0);
  };
  run("genesis_tokenize train --vocab-size 512 --output t.model page.md");
  run("genesis_tokenize encode --tokenizer t.model --validation-fraction 0.2 --output train "
      "--validation-output "
      "valid page.md");
  run("genesis_tokenize decode --tokenizer t.model --output valid.txt valid");
  run("genesis_train c.yaml");
}

nlohmann::json results(const Outcome& outcome) {
  REQUIRE(outcome.code == 0);
  return nlohmann::json::parse(outcome.out).at("results");
}

}  // namespace

TEST_CASE(
    "genesis_eval finds what the run's own validation found, at each step and depth, in data and in text") {
  const Shell shell("genesis_eval");
  train_page(shell);
  MetricsReader metrics(shell.folder.file("run/metrics.jsonl"));
  metrics.update();
  const std::vector<EvalRecord>& expected = metrics.metrics().evaluations;
  REQUIRE(expected.size() == 4);
  for (const char* set : {"--data valid", "--text valid.txt"}) {
    const auto found = results(shell.run(std::string("run --all --recurrence 1 2 --json - ") + set));
    REQUIRE(found.size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(found[i]["step"] == expected[i].step);
      CHECK(found[i]["recurrence"] == *expected[i].recurrence);
      CHECK(found[i]["loss"].get<double>() == Approx(expected[i].loss).epsilon(1e-5));
      CHECK(found[i]["bits_per_byte"].get<double>() == Approx(*expected[i].bits_per_byte).epsilon(1e-5));
    }
  }

  // Without anything named: the latest checkpoint, as trained, on its validation data.
  const Outcome plain = shell.run("run --json r.json --svg r.svg");
  REQUIRE(plain.code == 0);
  CHECK(lacks(plain.out, "run/checkpoints/step_00000008") == "");
  CHECK(lacks(plain.out, "valid, K = 2: loss ") == "");
  const auto saved = nlohmann::json::parse(read_text_file(shell.folder.file("r.json")));
  CHECK(saved["results"].size() == 1);
  CHECK(saved["results"][0]["interval_over"] == "windows");
  CHECK(lacks(read_text_file(shell.folder.file("r.svg")), "Bits per byte") == "");

  shell.folder.put("q.jsonl", R"({"ctx": "a seed's", "endings": ["bits", "of the card"], "label": "0"})"
                              "\n"
                              R"({"ctx": "the static", "endings": ["xyzzy plugh", "graph"], "label": 1})"
                              "\n");
  const auto choices = results(shell.run("run --choices q.jsonl --json -"));
  CHECK(choices[0]["questions"] == 2);
  CHECK(choices[0]["accuracy"].get<double>() * 2 ==
        Approx(std::round(choices[0]["accuracy"].get<double>() * 2)));

  const auto refused = [&](const std::string& arguments, const std::string& message) {
    const Outcome outcome = shell.run(arguments);
    CHECK(outcome.code != 0);
    CHECK(lacks(outcome.err, message) == "");
  };
  refused("nothing", "no such folder");
  refused("run --data none", "none");
  refused("run --text none.txt", "none.txt");
  refused("run --recurrence 0", "--recurrence");
  refused("run --overlap 48", "context of 48");
  refused("run --tokenizer page.md", "page.md");
  shell.folder.put("empty.txt", "");
  refused("run --text empty.txt", "no text to score");
}
