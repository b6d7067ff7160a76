#include "io/config.h"

#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/config/table.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

namespace {

// The smallest config there is. Line 2 is run_dir, 3 model, 6 data, 10 train, 14 optim.
const std::string kSmallest = R"(# a comment
run_dir: runs/x
model: {vocab_size: 512, hidden_size: 64, heads: 4, kv_heads: 2,
        head_size: 16, ffn_size: 128,
        layers: 6}
data:
  train: data/a
  sequence_length: 128

train:
  steps: 100
  batch_size: 8
  micro_batch: 4
optim:
  lr: 1e-3
)";

Config parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "run.yaml", overrides);
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return message_of([&] { parse(text, overrides); });
}

// What is said of one override of the smallest config; empty: it is taken.
std::string refusal(const std::string& override_) { return error_of(kSmallest, {override_}); }

// kSmallest with its first `old` replaced.
std::string with(const std::string& old, const std::string& text) {
  const size_t at = kSmallest.find(old);
  REQUIRE(at != std::string::npos);
  return kSmallest.substr(0, at) + text + kSmallest.substr(at + old.size());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a config is read into its fields, the rest are the defaults") {
  Config expected;
  expected.run_dir = "runs/x";
  expected.model = {.vocab_size = 512,
                    .hidden_size = 64,
                    .heads = 4,
                    .kv_heads = 2,
                    .head_size = 16,
                    .ffn_size = 128,
                    .layers = 6,
                    .recurrence = {}};
  expected.data.train = {{"data/a", 1.0}};
  expected.data.sequence_length = 128;
  expected.train.steps = 100;
  expected.train.batch_size = 8;
  expected.train.micro_batch = 4;
  expected.optim.lr = 1e-3;
  CHECK(parse(kSmallest) == expected);
}

TEST_CASE("every kind of value is read") {
  const Config c =
      parse(kSmallest,
            {"--model.recurrence.prelude=1", "--model.recurrence.core=4", "--model.recurrence.coda=1",
             "--model.recurrence.steps=+3", "--data.train=[{path: 'a b', weight: .5}, {path: c}, d]",
             "--data.validation=[e, \"f\"]", "--data.tokenizer=t: [#].model", "--train.recompute=block",
             "--train.memory_budget=1.5GiB", "--optim.eps=1E-9", "--optim.clip_norm=-0.0",
             "--optim.beta1=5.e-1", "--schedule.kind=wsd", "--schedule.decay_steps=10", "--log.metrics=false",
             "--eval.recurrence=[1, 2, 3]", "--device.kind=cpu", "--device.dtype=bf16"});
  CHECK(c.model.recurrence == Config::Recurrence{1, 4, 1, 3});
  CHECK(c.data.train == std::vector<Config::Dataset>{{"a b", 0.5}, {"c", 1.0}, {"d", 1.0}});
  CHECK(c.data.validation == std::vector<std::string>{"e", "f"});
  CHECK(c.data.tokenizer == "t: [#].model");
  CHECK(c.train.recompute == Config::Recompute::block);
  CHECK(c.train.memory_budget == int64_t{3} << 29);
  CHECK(c.optim.eps == 1e-9);
  CHECK(c.optim.clip_norm == 0.0);
  CHECK(c.optim.beta1 == 0.5);
  CHECK(c.schedule.kind == Config::ScheduleKind::wsd);
  CHECK(!c.log.metrics);
  CHECK(c.eval.recurrence == std::vector<int64_t>{1, 2, 3});
  CHECK(c.device.kind == Config::DeviceKind::cpu);
  CHECK(c.device.dtype == Config::Precision::bf16);
  CHECK(parse(print_config(c)) == c);
}

TEST_CASE("a printed config reads back equal, whatever the text in it") {
  Config c = parse(kSmallest);
  for (const std::string text : {"null",
                                 "~",
                                 "true",
                                 "1e-4",
                                 "-x",
                                 "a: b",
                                 "a #b",
                                 "[a]",
                                 "{a}",
                                 "\"q\"",
                                 "'q'",
                                 "C:\\d",
                                 " a ",
                                 "...",
                                 "---",
                                 "&a",
                                 "*a",
                                 "!a",
                                 "%a",
                                 "@a",
                                 "`a",
                                 "? a",
                                 "| a",
                                 "é/日本/😀",
                                 "\xc2\x85",
                                 "\xe2\x80\xa8",
                                 "\xef\xbb\xbf"
                                 "a",
                                 "a,b"}) {
    c.run_dir = text;
    c.data.tokenizer = text;
    c.data.train = {{text, 0.1}, {"other", 1e300}};
    c.data.validation = {text + "v"};
    INFO(text);
    CHECK(parse(print_config(c)) == c);
  }
  c.data.tokenizer = "";
  for (const double number : {1e-300, 1.0 / 3.0, 5e-324, 1.7976931348623157e308}) {
    c.data.train = {{"a", number}};
    CHECK(parse(print_config(c)) == c);
  }
  // The smallest and the largest that fp32 has.
  for (const double number : {1.1754943508222875e-38, 1.0 / 3.0, 3.4028234663852886e38}) {
    c.optim.lr = c.optim.eps = number;
    CHECK(parse(print_config(c)) == c);
  }
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1023}, int64_t{1} << 10, int64_t{5} << 40,
                              (int64_t{1} << 61) + 1, int64_t{1} << 61}) {
    c.train.memory_budget = bytes;
    CHECK(parse(print_config(c)) == c);
  }
}

TEST_CASE("an unknown key is refused with its line and the nearest right one") {
  CHECK(error_of(with("  steps: 100", "  setps: 100")) ==
        "run.yaml:11: unknown key train.setps; did you mean train.steps?");
  CHECK(error_of(with("optim:\n", "optimizer:\n")) ==
        "run.yaml:14: unknown key optimizer; did you mean optim?");
  CHECK(error_of(with("  steps: 100", "  lr: 1e-3")) ==
        "run.yaml:11: unknown key train.lr; did you mean optim.lr?");
  CHECK(error_of(with("layers: 6", "num_layers: 6")) ==
        "run.yaml:5: unknown key model.num_layers; did you mean model.layers?");
  CHECK(error_of(kSmallest + "xyzzy: 1\n") == "run.yaml:16: unknown key xyzzy; --help-config lists all keys");
  CHECK(error_of(with("run_dir: runs/x", "run_dir: runs/x\neval.every: 3")) ==
        "run.yaml:3: unknown key eval.every; a key of a section stands below the section's name");
  CHECK(error_of(with("train: data/a", "train: [{path: a, wieght: 2}]")) ==
        "run.yaml:7: data.train[0]: unknown key wieght; a dataset has path and weight");
}

TEST_CASE("a key that is there twice is refused, in quotes too") {
  CHECK(error_of(kSmallest + "  lr: 2e-3\n") == "run.yaml:16: key lr is there twice; first at run.yaml:15");
  CHECK(error_of(kSmallest + "\"run_dir\": y\n") ==
        "run.yaml:16: key run_dir is there twice; first at run.yaml:2");
  CHECK(contains(error_of(with("train: data/a", "train: [{path: a, path: b}]")), "key path is there twice"));
}

TEST_CASE("a required key that is missing is named") {
  CHECK(error_of(with("  steps: 100\n", "")) ==
        "run.yaml: train.steps is missing; expected an integer from 1 to 1000000000");
  CHECK(parse(with("  steps: 100\n", ""), {"--train.steps=7"}).train.steps == 7);
  CHECK(contains(error_of(with("train: data/a", "train: {weight: 2}")),
                 "run.yaml:7: data.train: path is missing"));
}

TEST_CASE("numbers: what YAML leaves open is decided") {
  const std::map<std::string, std::string> refused{
      // a field, and what is said after "expected ..., found"
      {"--train.steps=010",
       "found 010; a leading zero means octal to some readers of YAML and nothing to others: "
       "write 10"},
      {"--train.steps=-00", "write -0"},
      {"--train.steps=1e3", "found 1e3; write 1000"},
      {"--train.steps=100.0", "found 100.0; write 100"},
      {"--train.steps=100.5", "found 100.5"},
      {"--train.steps=0x10", "found 0x10"},
      {"--train.steps=0o10", "found 0o10"},
      {"--train.steps=1_000", "found 1_000"},
      {"--train.steps=1,000", "found 1,000"},
      {"--train.steps=1:30", "found 1:30"},
      {"--train.steps=ten", "found ten"},
      {"--train.steps=", "found empty text"},
      {"--train.steps= 5", "found  5"},
      {"--train.steps=0", "expected an integer from 1 to 1000000000, found 0"},
      {"--train.steps=1000000001", "found 1000000001"},
      {"--train.steps=99999999999999999999", "found 99999999999999999999"},
      {"--train.seed=-1", "expected an integer, at least 0, found -1"},
      {"--train.seed=9223372036854775808", "found 9223372036854775808"},
      {"--model.head_size=12", "expected a multiple of 8 from 8 to 256, found 12"},
      {"--model.head_size=264", "found 264"},
      {"--optim.lr=.inf", "expected a number above 0, found .inf; it has to be finite"},
      {"--optim.lr=.nan", "found .nan; it has to be finite"},
      {"--optim.lr=nan", "found nan"},
      {"--optim.lr=inf", "found inf"},
      {"--optim.lr=1e999", "it does not fit"},
      {"--optim.lr=1e-999", "it does not fit"},
      {"--optim.lr=0", "expected a number above 0, found 0"},
      {"--optim.lr=01.5", "found 01.5"},
      {"--optim.lr=0x1p3", "found 0x1p3"},
      {"--optim.lr=1e", "found 1e"},
      {"--optim.lr=.", "found ."},
      {"--optim.lr=1e-4x", "found 1e-4x"},
      {"--optim.beta1=1", "expected a number, at least 0, below 1, found 1"},
      {"--optim.beta2=-0.1", "found -0.1"},
      {"--train.memory_budget=2GB", "expected bytes, as 1073741824, 512MiB or 1.5GiB, found 2GB"},
      {"--train.memory_budget=-1", "found -1"},
      {"--train.memory_budget=-1GiB", "found -1GiB"},
      {"--train.memory_budget=GiB", "found GiB"},
      {"--train.memory_budget=1e30TiB", "found 1e30TiB"},
      {"--train.memory_budget=1.5", "found 1.5"},
      {"--train.memory_budget=02GiB", "found 02GiB"},
  };
  for (const auto& [argument, expected] : refused) {
    INFO(argument << " : " << refusal(argument));
    CHECK(contains(refusal(argument), expected));
    CHECK(refusal(argument).starts_with(argument + ": "));
  }
  CHECK(
      error_of(with("1e-3", "'1e-3'")) ==
      "run.yaml:15: optim.lr: expected a number above 0, found \"1e-3\" in quotes; write it without quotes");
  CHECK(parse(with("1e-3", "1e-4")).optim.lr == 1e-4);  // text to some readers of YAML
  CHECK(parse(with("1e-3", "3")).optim.lr == 3.0);
  CHECK(parse(kSmallest, {"--train.seed=9223372036854775807"}).train.seed == INT64_MAX);
  CHECK(parse(kSmallest, {"--train.memory_budget=3 MiB"}).train.memory_budget == 3 << 20);
}

TEST_CASE("a number that fp32 makes something else of is refused wherever fp32 computes with it") {
  size_t fields = 0;
  for (const config::Section& section : config::table()) {
    for (const config::Field& field : section.fields) {
      if (!field.expected.starts_with("a number")) continue;
      ++fields;
      INFO(field.path);
      const std::string key = "--" + field.path + "=";
      for (const char* small : {"1e-46", "1e-39", "1e-300"}) {
        CHECK(contains(refusal(key + small), "computed with in fp32, it would be 0"));
      }
      if (contains(field.expected, "below 1")) {
        for (const char* one : {"0.99999999999", "0.9999999999999999", "0.99999998"}) {
          CHECK(contains(refusal(key + one), "computed with in fp32, it would be 1"));
        }
        CHECK(refusal(key + "0.9999999").empty());
      } else {
        for (const char* large : {"3.4028236e38", "1e39", "1e300"}) {
          CHECK(contains(refusal(key + large), "computed with in fp32, it would be inf"));
        }
      }
    }
  }
  CHECK(fields == 14);
  CHECK(refusal("--optim.lr=3.4e38").empty());
  CHECK(refusal("--optim.weight_decay=1.2e-38").empty());
  CHECK(refusal("--optim.weight_decay=0").empty());
  CHECK(refusal("--optim.beta1=0").empty());
  // A dataset's weight is only ever compared with others, in fp64.
  CHECK(refusal("--data.train=[{path: a, weight: 1e-300}, {path: b, weight: 1e300}]").empty());
}

TEST_CASE("truth values are true and false") {
  for (const std::string word :
       {"yes", "no", "on", "off", "True", "TRUE", "y", "n", "1", "0", "\"true\"", "''"}) {
    const std::string message = error_of(kSmallest + "log:\n  metrics: " + word + "\n");
    INFO(message);
    CHECK(message.starts_with("run.yaml:17: log.metrics: expected true or false, found "));
  }
  CHECK(!parse(kSmallest + "log:\n  metrics: false\n").log.metrics);
  CHECK(parse(with("runs/x", "yes")).run_dir == "yes");  // text stays text
}

TEST_CASE("a choice names its words") {
  CHECK(refusal("--train.recompute=full") ==
        "--train.recompute=full: train.recompute: expected none, block or auto, found full");
  CHECK(refusal("--schedule.kind=linear") ==
        "--schedule.kind=linear: schedule.kind: expected cosine, wsd or constant, found linear");
  CHECK(contains(refusal("--device.dtype=fp16"), "expected auto, f32 or bf16"));
  CHECK(contains(refusal("--device.kind=CUDA"), "expected auto, cpu or cuda"));
}

TEST_CASE("lists, sections and scalars do not stand for each other") {
  CHECK(error_of(with("steps: 100", "steps: [100]")) ==
        "run.yaml:11: train.steps: expected an integer from 1 to 1000000000, found a list");
  CHECK(error_of(with("lr: 1e-3", "lr: {max: 1e-3}")) ==
        "run.yaml:15: optim.lr: expected a number above 0, found a section");
  CHECK(error_of(with("run_dir: runs/x", "run_dir: [a]")) ==
        "run.yaml:2: run_dir: expected a folder, found a list");
  CHECK(error_of(kSmallest + "log: true\n") ==
        "run.yaml:16: log: expected a section, with keys of its own, found true");
  CHECK(error_of(kSmallest + "log: [1]\n") ==
        "run.yaml:16: log: expected a section, with keys of its own, found a list");
  CHECK(error_of(kSmallest + "eval:\n  recurrence: {a: 1}\n") ==
        "run.yaml:17: eval.recurrence: expected an integer from 1 to 1024, found a section");
  CHECK(contains(error_of(with("train: data/a", "train: []")),
                 "data.train: expected a path or {path: ..., weight: "
                 "...}, or a list of such, found a list; the list is "
                 "empty"));
  CHECK(contains(error_of(with("train: data/a", "train: [[a]]")), "data.train[0]: expected a path or {path"));
  CHECK(contains(error_of(with("train: data/a", "train: [a, {path: b, weight: 0}]")),
                 "data.train[1].weight: expected a number above 0, found 0"));
  CHECK(error_of("- a\n- b\n") == "run.yaml:1: expected sections such as model: and data:, found a list");
  CHECK(error_of("text") == "run.yaml:1: expected sections such as model: and data:, found text");
}

TEST_CASE("nothing is not a value") {
  for (const std::string null : {"", " ~", " null", " NULL"}) {
    CHECK(error_of(with("lr: 1e-3", "lr:" + null)) ==
          "run.yaml:15: optim.lr: expected a number above 0, found nothing");
    CHECK(error_of(with("run_dir: runs/x", "run_dir:" + null)) ==
          "run.yaml:2: run_dir: expected a folder, found nothing");
    CHECK(error_of(kSmallest + "log:" + null + "\n") ==
          "run.yaml:16: log: expected a section, with keys of its own, found nothing");
    CHECK(contains(error_of(with("train: data/a", "train:" + null)),
                   "run.yaml:7: data.train: expected a path"));
  }
  CHECK(contains(error_of(with("train: data/a", "train: data/a\n  tokenizer:")), "write '' for none"));
  CHECK(contains(error_of(with("run_dir: runs/x", "run_dir: ''")), "expected a folder, found empty text"));
  CHECK(parse(with("train: data/a", "train: data/a\n  tokenizer: ''")).data.tokenizer.empty());
}

TEST_CASE("text that is no single plain YAML document is refused with its line") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "run.yaml: the file is empty; expected sections such as model: and data:"},
      {"\n \n# only a comment\n", "run.yaml: the file is empty"},
      {"---\n", "run.yaml: the file is empty"},
      {kSmallest + "]\n", "run.yaml:16:1: not valid YAML: illegal flow end"},
      {kSmallest + "} x\n", "run.yaml:16:1: not valid YAML"},
      {kSmallest + "log: {every: 1\n", "not valid YAML"},
      {"\"run_dir: x\n", "run.yaml: a quote after this is not closed"},
      {kSmallest + "log: \"x\n", "run.yaml:16: a quote after this is not closed"},
      {with("runs/x", "'runs/x"), "run.yaml:2: a quote after this is not closed"},
      {kSmallest + "  beta1: 0.9\n   beta2: 0.9\n", "run.yaml:17:"},
      {kSmallest + "---\nlog: {every: 1}\n", "run.yaml:16: a second YAML document begins here"},
      {kSmallest + "...\njunk\n", "run.yaml:17: a second YAML document begins here"},
      {kSmallest + "log:\n\tevery: 1\n", "run.yaml:17: a tab before the text; YAML indents with spaces"},
      {kSmallest + "log: {every: 1} # \xff\n", "run.yaml:16: not UTF-8"},
      {kSmallest + "log: {every: 1} # \x1b[2J\n", "run.yaml:16: a control character"},
      {with("runs/x", std::string("a\0b", 3)), "run.yaml:2: a control character"},
      {with("runs/x", "\"a\\nb\""), "run.yaml:2: a control character in a value"},
      {with("runs/x", "|\n  a\n  b"), "run.yaml:2: a control character in a value"},
      {with("runs/x", "\"\\é\""), "unknown escape character: ?"},
      {with("runs/x", "&here runs/x"), "run.yaml:2: anchors (&name) are not taken"},
      {with("run_dir: runs/x", "run_dir: *here"), "run.yaml:2"},
      {with("100", "&n 100") + "log: {every: *n}\n", "run.yaml:11: anchors (&name) are not taken"},
      {with("train: data/a", "<<: {train: data/a}"), "run.yaml:7: merge keys (<<) are not taken"},
      {with("100", "!!int 100"), "run.yaml:11: tags (tag:yaml.org,2002:int) are not taken"},
      {with("100", "!thing 100"), "run.yaml:11: tags (!thing) are not taken"},
      {with("run_dir:", "? [a]\n:"), "run.yaml:2: expected a key, found a list"},
      {with("run_dir:", ":"), "run.yaml:2: expected a key, found nothing"},
      {std::string(2000, '['), "not valid YAML"},
      {std::string(2 << 20, '#'), "run.yaml: 2097152 bytes; a config has at most 1048576"},
  };
  for (const auto& [text, expected] : cases) {
    INFO(text.substr(0, 500) << "\n" << error_of(text));
    CHECK(contains(error_of(text), expected));
  }
}

TEST_CASE("what is plain YAML is read: line ends of Windows, a byte order mark, one document's markers") {
  std::string windows;
  for (const char c : kSmallest) windows += c == '\n' ? "\r\n" : std::string(1, c);
  CHECK(parse(windows) == parse(kSmallest));
  CHECK(parse("\xef\xbb\xbf" + kSmallest) == parse(kSmallest));
  CHECK(parse("%YAML 1.2\n---\n" + kSmallest + "...\n") == parse(kSmallest));
  CHECK(parse(with("runs/x", ">-\n  runs/x")) == parse(kSmallest));
  CHECK(parse(kSmallest.substr(0, kSmallest.size() - 1)) == parse(kSmallest));
}

TEST_CASE("overrides count after the file, the last one most") {
  const Config c =
      parse(kSmallest, {"--optim.lr=3e-4", "--train.steps=5", "--optim.lr=2e-4", "--run_dir=a=b"});
  CHECK(c.optim.lr == 2e-4);
  CHECK(c.train.steps == 5);
  CHECK(c.run_dir == "a=b");
  CHECK(refusal("--optim.lr") == "--optim.lr: expected --optim.lr=value");
  CHECK(contains(refusal("optim.lr=1"),
                 "optim.lr=1: was not expected; a field of the config is set by --section"));
  CHECK(contains(refusal("other.yaml"), "other.yaml: was not expected"));
  CHECK(contains(refusal("--foo"), "--foo: there is no such option"));
  CHECK(contains(refusal("-x=1"), "-x=1: there is no such option"));
  CHECK(contains(refusal("--optm"), "--optm: there is no such option"));
  CHECK(refusal("--optm.lr=1") == "--optm.lr=1: unknown key optm.lr; did you mean optim.lr?");
  CHECK(refusal("--train=5") == "--train=5: unknown key train; it is a section: set one of its keys");
  CHECK(contains(refusal("--=5"), "--=5: there is no such option"));
  CHECK(contains(refusal("--data.train=[a"), "not valid YAML"));
  CHECK(contains(refusal("--data.train={path: a} x"), "a second YAML document"));
  CHECK(contains(refusal("--run_dir=[a]"), "run_dir: expected a folder, found a list"));
  CHECK(contains(refusal("--run_dir=\xff"), "not UTF-8"));
  CHECK(contains(refusal("--run_dir=a\nb"), "a control character"));
  CHECK(contains(refusal("--optim.lr=1\n"), "a control character"));
}

TEST_CASE("fields that do not go together are refused, at the line of one of them") {
  CHECK(error_of(with("kv_heads: 2", "kv_heads: 3")) ==
        "run.yaml:3: model.heads (4) has to be a multiple of model.kv_heads (3)");
  CHECK(error_of(with("batch_size: 8", "batch_size: 9")) ==
        "run.yaml:12: train.batch_size (9) has to be a multiple of train.micro_batch (4)");
  CHECK(refusal("--train.micro_batch=16") ==
        "run.yaml:12: train.batch_size (8) has to be a multiple of train.micro_batch (16)");
  CHECK(refusal("--schedule.warmup_steps=100") ==
        "--schedule.warmup_steps=100: schedule.warmup_steps (100) has to be below train.steps (100)");
  CHECK(refusal("--schedule.warmup_steps=99").empty());
  CHECK(refusal("--schedule.min_lr=2e-3") ==
        "--schedule.min_lr=2e-3: schedule.min_lr (0.002) has to be at most optim.lr (0.001)");
  CHECK(refusal("--schedule.min_lr=1e-3").empty());
  CHECK(contains(refusal("--schedule.kind=wsd"), "schedule.decay_steps has to be at least 1"));
  CHECK(contains(
      error_of(kSmallest, {"--schedule.kind=wsd", "--schedule.decay_steps=91", "--schedule.warmup_steps=10"}),
      "schedule.warmup_steps + schedule.decay_steps (10 + 91) has to be at most train.steps (100)"));
  CHECK(contains(refusal("--eval.every=10"), "data.validation is empty"));
  CHECK(contains(error_of(kSmallest, {"--train.steps=1000000000", "--train.batch_size=1000000000",
                                      "--train.micro_batch=1"}),
                 "over 2^62 tokens"));
}

TEST_CASE("a recurrence has to account for all layers") {
  const auto recurrence = [](const std::string& fields, const std::vector<std::string>& overrides = {}) {
    return error_of(with("layers: 6}", "layers: 6, recurrence: {" + fields + "}}"), overrides);
  };
  CHECK(recurrence("prelude: 1, core: 4, coda: 1, steps: 2").empty());
  CHECK(recurrence("core: 6, steps: 2").empty());
  CHECK(recurrence("prelude: 1, core: 4, steps: 2") ==
        "run.yaml:5: model.recurrence: prelude + core + coda (1 + 4 + 0) has to be model.layers (6)");
  CHECK(contains(recurrence("steps: 2"), "model.recurrence needs a core"));
  CHECK(contains(recurrence("prelude: 6"), "model.recurrence needs a core"));
  CHECK(contains(recurrence("core: 6, steps: 0"), "expected an integer from 1 to 1024, found 0"));
  CHECK(recurrence("core: 6", {"--eval.recurrence=[1,2]"}).empty());
  CHECK(recurrence("core: 6", {"--eval.recurrence=4"}).empty());
  CHECK(contains(recurrence("core: 6", {"--eval.recurrence=[2,2]"}), "names a number twice"));
  CHECK(contains(refusal("--eval.recurrence=[2]"), "the model is dense"));
}

TEST_CASE("a dataset is named once, and not for training and validation both") {
  CHECK(contains(refusal("--data.train=[a, b, a]"), "data.train: a is there twice; give it a larger weight"));
  CHECK(contains(refusal("--data.validation=[b, b]"), "data.validation: b is there twice"));
  CHECK(contains(refusal("--data.validation=data/a"),
                 "data.validation: data/a is there twice, or is trained on"));
  CHECK(refusal("--data.validation=[b, c]").empty());
}

TEST_CASE("a run goes on with another length or learning rate, not with another model or other data") {
  const Config held = parse(kSmallest);
  CHECK(config_differences(held, held).empty());
  CHECK(
      config_differences(held, parse(kSmallest, {"--train.steps=500", "--optim.lr=1", "--train.micro_batch=2",
                                                 "--run_dir=moved", "--device.kind=cpu"}))
          .empty());
  CHECK(config_differences(held, parse(kSmallest, {"--model.ffn_size=256", "--data.train=[b, c]"})) ==
        "model.ffn_size was 128, is 256; data.train was [{path: data/a, weight: 1}], is [{path: b, weight: "
        "1}, {path: c, weight: 1}]");
  CHECK(config_differences(held, parse(kSmallest, {"--data.train=moved/a"})).empty());
  CHECK_FALSE(config_differences(held, parse(kSmallest, {"--data.train={path: data/a, weight: 2}"})).empty());
}

TEST_CASE("a file that cannot be read is named") {
  const TempFolder folder;
  const auto load = [&](const std::string& path) { return message_of([&] { load_config(path); }); };
  CHECK(load(folder.file("none.yaml")) ==
        "cannot read " + folder.file("none.yaml") + ": No such file or directory");
  CHECK(load(folder.path()) ==
        "cannot read " + folder.path().string() + ": it is not a regular file but a folder");
  std::ofstream(folder.file("empty.yaml")).flush();
  CHECK(load(folder.file("empty.yaml")).starts_with(folder.file("empty.yaml") + ": the file is empty"));
  std::ofstream(folder.file("a.yaml")) << kSmallest;
  CHECK(load_config(folder.file("a.yaml")) == parse(kSmallest));
}
