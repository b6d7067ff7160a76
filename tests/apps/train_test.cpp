// genesis_train and genesis_generate as their user meets them.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <sstream>

#include "apps/train/micro_batches.h"
#include "io/config.h"
#include "tests/apps/shell.h"
#include "tests/io/small_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

const std::string kConfigs = GENESIS_SOURCE_DIR "/configs/";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Makes "t.model" and the datasets "train" and "valid" of the shell's "page.md".
void encode_page(const Shell& shell) {
  const std::string in =
      "cd " + shell.folder.path().string() + " && " + GENESIS_BIN_DIR + "/genesis_tokenize ";
  REQUIRE(std::system((in + "train --vocab-size 512 --output t.model page.md >/dev/null 2>&1").c_str()) == 0);
  REQUIRE(std::system((in + "encode --tokenizer t.model --validation-fraction 0.2 --output train "
                            "--validation-output valid page.md >/dev/null 2>&1")
                          .c_str()) == 0);
}

// Puts a tokenizer, a dataset and a config "c.yaml" that trains on it into the shell's folder.
void prepare(const Shell& shell) {
  shell.folder.put("page.md", design_page());
  encode_page(shell);
  shell.folder.put(
      "c.yaml",
      "run_dir: run\n"
      "model: {vocab_size: 512, hidden_size: 32, layers: 2, heads: 2, kv_heads: 1, head_size: 16,\n"
      "        ffn_size: 64, tie_embeddings: true}\n"
      "data: {train: train, validation: valid, tokenizer: t.model, sequence_length: 32}\n"
      "train: {steps: 6, batch_size: 4, micro_batch: 4}\n"
      "optim: {lr: 1e-2}\n"
      "schedule: {warmup_steps: 1}\n"
      "checkpoint: {every: 2, keep: 0}\n");
}

}  // namespace

TEST_CASE("genesis_train --plan gives the table's parameters for every config and touches nothing") {
  const std::pair<const char*, const char*> expected[] = {{"genesis_1b_run1", "1,002,522,624"},
                                                          {"genesis_1b", "1,000,441,344"},
                                                          {"nano_1b", "1,076,700,672"},
                                                          {"nano_1b_recurrent", "1,076,700,672"},
                                                          {"quickstart", "total"},
                                                          {"quickstart_recurrent", "executions"}};
  for (const auto& [name, parameters] : expected) {
    const Shell shell("genesis_train");
    const Outcome plan = shell.run("--plan " + kConfigs + name + ".yaml");
    CHECK(plan.code == 0);
    CHECK(has(plan.out, parameters));
    CHECK(has(plan.out, "activations, recompute block"));
    for (const auto& entry : std::filesystem::directory_iterator(shell.folder.path())) {
      const std::string file = entry.path().filename();
      CHECK((file == "stdout" || file == "stderr"));
    }
  }
  // 6 N and causal attention: the published 6.607 GFLOP a token.
  const Shell shell("genesis_train");
  const Outcome plan = shell.run("--plan " + kConfigs + "genesis_1b.yaml");
  CHECK(has(plan.out, "2.20B"));
  CHECK(has(plan.out, "4.41B"));
}

TEST_CASE("genesis_train --plan prints the plan of what does not fit, and by how much it does not") {
  const Shell shell("genesis_train");
  const auto plan = [&](const std::string& how) {
    const Outcome outcome = shell.run("--plan " + kConfigs + "quickstart.yaml " + how);
    CHECK(outcome.code == 0);
    CHECK(outcome.err == "");
    for (const char* part : {"total ", "FLOPs a token", "optimizer ", "recompute none ", "recompute block ",
                             "<- this config", "peak", "workspace", "checkpoint\n  size "}) {
      CHECK(lacks(outcome.out, part) == "");
    }
    return outcome.out;
  };
  // Too little for the parameters; and for them, but not for the activations.
  for (const char* budget : {"1KiB", "60MiB"}) {
    const std::string memory = std::string("--train.memory_budget=") + budget;
    for (const char* choice : {"none", "block", "auto"}) {
      const std::string said = plan(memory + " --train.recompute=" + choice);
      const size_t by = said.find(": DOES NOT FIT, ");
      REQUIRE(by != std::string::npos);
      CHECK(lacks(said.substr(by, 60), " too much\n") == "");
      CHECK((lacks(said, "does not fit: ") == "") == (choice == std::string("auto")));
    }
  }
  CHECK(lacks(plan("--train.memory_budget=1KiB"), "parameters, gradients and optimizer need ") == "");
  CHECK(lacks(plan("--train.memory_budget=60MiB"), "train.memory_budget leaves ") == "");
  CHECK(!has(plan("--train.memory_budget=100GiB"), "FIT"));
  CHECK(lacks(plan("--model.hidden_size=8192 --model.heads=128 --model.kv_heads=128 "
                   "--model.layers=64 --model.ffn_size=1000000"),
              "TiB too much") == "");
}

TEST_CASE("genesis_train --plan --gpu plans for the card's memory and time, and finds the best micro-batch") {
  const Shell shell("genesis_train");
  const std::string config = kConfigs + "genesis_1b.yaml ";
  const Outcome plan = shell.run("--plan --gpu rtx4090 " + config);
  CHECK(plan.code == 0);
  CHECK(lacks(plan.out,
              "planned for                             21.6 GiB   nine tenths of one RTX 4090's 24.0 GiB") ==
        "");
  for (const char* part : {"RTX 4090 (sm_89): 911 GB/s", "attention_backward, dk dv",
                           "head_loss, cross-entropy", "tokens/s; not in it:"}) {
    CHECK(lacks(plan.out, part) == "");
  }
  // Nothing is multiplied again at 2 sequences, which takes the least time.
  const auto speed = [&](const std::string& mark) {
    const size_t at = plan.out.find(mark);
    REQUIRE(at != std::string::npos);
    return std::stod(plan.out.substr(plan.out.rfind(' ', at - 4)));
  };
  CHECK(speed("   <- best") > 1.05 * speed("   <- this config\n  8"));
  CHECK(lacks(shell.run("--plan --gpu rtx4090 " + config + "--train.micro_batch=2").out,
              "<- this config   <- best") == "");
  // A card with more memory recomputes nothing; a budget of the config's own is kept to.
  CHECK(lacks(shell.run("--plan --gpu h200 " + config).out,
              "values recomputed                              0") == "");
  CHECK(lacks(shell.run("--plan --gpu h200 --train.memory_budget=30GiB " + config).out,
              "30.0 GiB   train.memory_budget") == "");
  // Without a card it is this machine's memory.
  CHECK(lacks(shell.run("--plan " + kConfigs + "quickstart.yaml").out, "nine tenths of this machine's ") ==
        "");
  CHECK(lacks(shell.run("--plan " + config).out, "; for a GPU's: --gpu CARD") == "");

  const std::string none = shell.run("--plan --gpu rtx4090 " + config + "--model.layers=128").out;
  CHECK(lacks(none, ": DOES NOT FIT, ") == "");
  CHECK(!has(none, "<- best"));
  CHECK(!has(none, "not in it"));
  CHECK(lacks(shell.run("--plan --gpu gtx1080 " + config).err, "there are rtx4090 (RTX 4090)") == "");
  CHECK(lacks(shell.run("--gpu rtx4090 " + config).err, "--gpu says what --plan plans for") == "");
}

TEST_CASE("the best micro-batch is the largest of those that are nearly the fastest and fit") {
  std::vector<MicroBatch> tried = {{.size = 1, .fits = true, .tokens_per_second = 1000},
                                   {.size = 2, .fits = true, .tokens_per_second = 995},
                                   {.size = 4, .fits = true, .tokens_per_second = 900},
                                   {.size = 8, .fits = false, .tokens_per_second = 2000}};
  CHECK(best_of(tried)->size == 2);
  tried[1].tokens_per_second = 980;
  CHECK(best_of(tried)->size == 1);
  for (MicroBatch& m : tried) m.fits = false;
  CHECK(best_of(tried) == nullptr);
}

TEST_CASE("genesis_train documents and prints its config, and the page in docs is that document") {
  const Shell shell("genesis_train");
  CHECK(shell.run("--help-config=markdown").out == read_text_file(GENESIS_SOURCE_DIR "/docs/config.md"));
  CHECK(has(shell.run("--help-config").out, "train.steps"));
  const Outcome printed = shell.run("--print-config " + kConfigs + "quickstart.yaml --optim.lr=0.125");
  CHECK(printed.code == 0);
  CHECK(parse_config(printed.out, "printed").optim.lr == 0.125);
}

TEST_CASE("genesis_train --print-graph shows the graph after each pass") {
  const Shell shell("genesis_train");
  const Outcome graph = shell.run("--print-graph " + kConfigs + "quickstart.yaml --train.recompute=block");
  CHECK(graph.code == 0);
  size_t at = 0;
  for (const char* pass :
       {"# after build", "# after differentiate", "# after optimizer", "# after recompute"}) {
    at = graph.out.find(pass, at);
    CHECK(at != std::string::npos);
  }
  CHECK(has(graph.out.substr(at), " recompute"));
}

TEST_CASE("genesis_train trains and genesis_generate writes from any checkpoint of the run") {
  const Shell train("genesis_train");
  prepare(train);
  const Outcome trained = train.run("c.yaml");
  REQUIRE(trained.code == 0);
  CHECK(has(trained.out, "bits per byte"));
  const auto generate = [&](const std::string& arguments) {
    const Shell shell("genesis_generate");
    const std::string in = train.folder.path().string();
    return shell.run(in + "/" + arguments + " --tokenizer " + in + "/t.model");
  };
  const Outcome first = generate("run --prompt 'The ' --tokens 40 --seed 3");
  REQUIRE(first.code == 0);
  CHECK(first.out.starts_with("The "));
  CHECK(first.out.size() > 20);
  CHECK(generate("run --prompt 'The ' --tokens 40 --seed 3").out == first.out);
  CHECK(generate("run --prompt 'The ' --tokens 40 --seed 4").out != first.out);
  CHECK(generate("run/checkpoints/step_00000006 --prompt 'The ' --tokens 40 --seed 3").out == first.out);
  CHECK(generate("run/checkpoints/step_00000002 --prompt 'The ' --tokens 40 --seed 3").out != first.out);
  // Longer than the graph that reads prompts 64 tokens at a time.
  CHECK(generate("run --prompt '" + std::string(300, 'x') + "' --tokens 5").code == 0);
}

TEST_CASE("genesis_train and genesis_generate say what is wrong in one line") {
  const Shell train("genesis_train");
  prepare(train);
  const auto refused = [](const Outcome& o, const std::string& part) {
    CHECK(o.code != 0);
    CHECK(has(o.err, part));
    CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
  };
  refused(train.run(""), "which config");
  refused(train.run("nothing.yaml"), "nothing.yaml");
  refused(train.run("c.yaml --train.stepz=3"), "train.steps");
  refused(train.run("c.yaml --optim.lr=fast"), "optim.lr");
  refused(train.run("c.yaml --run_dir=/proc/none"), "/proc/none");
  CHECK(!train.exists("run"));

  const Shell generate("genesis_generate");
  refused(generate.run("nothing"), "nothing");
  refused(generate.run("."), "checkpoint");
  REQUIRE(train.run("c.yaml").code == 0);
  const std::string run = train.folder.path().string() + "/run",
                    model = train.folder.path().string() + "/t.model";
  refused(generate.run(run + " --tokenizer " + model + " --top-p 2"), "top_p");
  refused(generate.run(run + " --tokenizer " + model + " --recurrence 2"), "dense");
  refused(generate.run(run + " --tokenizer " + model + " --prompt \"$(printf 'caf\\351')\""),
          "--prompt: is not UTF-8 at byte 3");
  for (const char* option : {"--seed", "--top-k", "--tokens", "--recurrence"}) {
    for (const char* value : {"-1", "1e3", "1.5", "5x", "0x10", "99999999999999999999"}) {
      const Outcome outcome = generate.run(run + " " + option + "=" + value);
      CHECK(outcome.code == 2);
      CHECK(has(outcome.err, std::string("genesis_generate: ") + option + ": expected an integer"));
      CHECK(outcome.err.size() < 150);
    }
  }
  CHECK(generate.run(run + " --tokens=002 --seed=010").out ==
        generate.run(run + " --tokens 2 --seed 10").out);
  CHECK(generate.run(run + " --tokens 3").code == 0);  // the run keeps its tokenizer
  CHECK(generate.run(run + "/checkpoints/step_00000002 --tokens 3").code == 0);
  const std::string two = run + "/checkpoints/step_00000002", alone = generate.folder.file("alone");
  std::filesystem::copy(two, alone, std::filesystem::copy_options::recursive);
  CHECK(generate.run("alone --tokens 9 --seed 5").out == generate.run(two + " --tokens 9 --seed 5").out);
  std::filesystem::remove(run + "/tokenizer.model");
  CHECK(generate.run(run + " --tokens 3").code == 0);  // so does each checkpoint
  std::filesystem::remove(two + "/tokenizer.model");
  refused(generate.run(two), "name one with --tokenizer");
  small_tokenizer(generate.folder.file("other.model"));
  refused(generate.run(run + " --tokenizer other.model"), "hash");
}

TEST_CASE("an interrupted genesis_train saves what it has reached, and goes on from there") {
  const Shell train("genesis_train");
  prepare(train);
  const std::string program = std::string(GENESIS_BIN_DIR) + "/genesis_train";
  // Ctrl-C as soon as the third step is logged.
  train.folder.put(
      "interrupt.sh",
      program +
          " c.yaml --train.steps=1000000 --checkpoint.every=0 >first & pid=$!\n"
          "until [ -e run/metrics.jsonl ] && [ $(wc -l <run/metrics.jsonl) -ge 3 ]; do sleep 0.02; done\n"
          "grep -h ^SigBlk: /proc/$pid/task/*/status >blocked; grep -h ^SigCgt: /proc/$pid/status >caught\n"
          "kill -INT $pid; wait $pid\n");
  const std::string in = "cd " + train.folder.path().string() + " && ";
  // A shell starts background programs with SIGINT ignored unless job control (-m) is on.
  REQUIRE(std::system((in + "sh -m interrupt.sh 2>/dev/null").c_str()) == 0);
  // No handler runs on a computing thread's stack (apps/train/stop_signals.h says why).
  const uint64_t stops = uint64_t(1) << (SIGINT - 1) | uint64_t(1) << (SIGTERM - 1);
  std::istringstream blocked(read_text_file(train.folder.file("blocked"))),
      caught(read_text_file(train.folder.file("caught")));
  std::string name, mask;
  int threads = 0, open = 0, masks = 0;
  for (; blocked >> name >> mask; ++threads) open += (std::stoull(mask, nullptr, 16) & stops) != stops;
  for (; caught >> name >> mask; ++masks) CHECK((std::stoull(mask, nullptr, 16) & stops) == 0);
  CHECK(threads >= 3);
  CHECK(open == 1);  // the one that waits: it lets them in meanwhile
  CHECK(masks == 1);

  const std::string first = read_text_file(train.folder.file("first"));
  const size_t at = first.find("stopped after step ");
  REQUIRE(at != std::string::npos);
  const int step = std::stoi(first.substr(at + 19));
  CHECK(step >= 3);
  const Outcome second =
      train.run("c.yaml --schedule.on_resume=extend --train.steps=" + std::to_string(step + 2));
  CHECK(second.code == 0);
  CHECK(has(second.out, "(step " + std::to_string(step) + ")"));
}

TEST_CASE("two SIGTERMs a moment apart, as timeout sends them, lose nothing") {
  const Shell train("genesis_train");
  prepare(train);
  const std::string program = std::string(GENESIS_BIN_DIR) + "/genesis_train";
  // Of 13 runs that got a second signal after 0 to 30 ms one had ended while it saved.
  train.folder.put("two.sh",
                   program +
                       " c.yaml --train.steps=1000000 --checkpoint.every=0 --run_dir=$1 >out & pid=$!\n"
                       "until [ -s $1/metrics.jsonl ]; do sleep 0.01; done\n"
                       "kill -TERM $pid; sleep $2; kill -TERM $pid 2>/dev/null\n"
                       "wait $pid && ls $1/checkpoints/step_*/state.json >/dev/null\n");
  for (const char* apart : {"0", "0.003", "0.01", "0.03"}) {
    INFO(apart << " s apart");
    CHECK(std::system(("cd " + train.folder.path().string() + " && sh two.sh run" + apart + " " + apart +
                       " 2>/dev/null")
                          .c_str()) == 0);
  }
  const std::string timed = "cd " + train.folder.path().string() + " && timeout 0.5 " + program +
                            " c.yaml --train.steps=1000000 --checkpoint.every=0 --run_dir=timed >out";
  CHECK(WEXITSTATUS(std::system(timed.c_str())) == 124);  // timeout's own
  CHECK(train.exists("timed/checkpoints"));
}

TEST_CASE("a file-size limit is an error that names the file, and not the end without a word") {
  const Shell train("genesis_train");
  prepare(train);
  REQUIRE(train.run("c.yaml --train.steps=4 --schedule.kind=constant").code == 0);
  // In units of 512 bytes: less than the checkpoint's tensors, more than the log.
  const std::string limited = "c.yaml --train.steps=8 --schedule.kind=constant";
  train.folder.put("limited.sh",
                   "ulimit -f 64; " + std::string(GENESIS_BIN_DIR) + "/genesis_train " + limited);
  const int status =
      std::system(("cd " + train.folder.path().string() + " && sh limited.sh >out 2>err").c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  const std::string said = read_text_file(train.folder.file("err"));
  CHECK(has(said, "model-00001-of-00001.safetensors: File too large"));
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  CHECK(has(train.run(limited).out, "(step 4)"));  // what was there is there
}

TEST_CASE("genesis_train saves what it has reached when nobody reads its output any more") {
  const Shell train("genesis_train");
  prepare(train);
  const std::string command =
      "cd " + train.folder.path().string() + " && " + GENESIS_BIN_DIR +
      "/genesis_train c.yaml --train.steps=1000000 --checkpoint.every=0 2>&1 | head -n 3";
  REQUIRE(std::system((command + " >/dev/null").c_str()) == 0);
  const std::filesystem::directory_iterator saved(train.folder.path() / "run/checkpoints");
  REQUIRE(saved != std::filesystem::directory_iterator());
  const int step = std::stoi(saved->path().filename().string().substr(5));  // of step_00000012
  CHECK(step >= 1);
  const Outcome second =
      train.run("c.yaml --schedule.on_resume=extend --train.steps=" + std::to_string(step + 2));
  CHECK(has(second.out, "(step " + std::to_string(step) + ")"));
}

TEST_CASE("genesis_train does not go on with text that another tokenizer encoded") {
  const Shell train("genesis_train");
  prepare(train);
  REQUIRE(train.run("c.yaml").code == 0);
  const std::string kept = read_text_file(train.folder.file("run/tokenizer.model"));
  CHECK(kept == read_text_file(train.folder.file("t.model")));
  REQUIRE(std::system(("cd " + train.folder.path().string() + " && rm t.model train.* valid.*").c_str()) ==
          0);
  const std::string config = read_text_file(train.folder.file("run/config.yaml"));
  train.folder.put("page.md", design_page() + " another tokenizer, another tokenizer, another tokenizer");
  encode_page(train);
  const Outcome outcome = train.run("c.yaml --train.steps=8 --schedule.on_resume=extend");
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, "was trained with the tokenizer of hash"));
  CHECK(read_text_file(train.folder.file("run/tokenizer.model")) == kept);
  CHECK(read_text_file(train.folder.file("run/config.yaml")) == config);
}

TEST_CASE("a thread that the system does not give is told as what it is, by every program") {
  const Shell train("genesis_train");
  prepare(train);
  REQUIRE(train.run("c.yaml").code == 0);
  namespace fs = std::filesystem;
  fs::permissions(train.folder.path(), fs::perms(0777));
  for (const auto& entry : fs::recursive_directory_iterator(train.folder.path())) {
    fs::permissions(entry.path(), fs::perms(0777));
  }
  // The limit holds for a user without special rights alone, who need not be able to read where the build is.
  const std::string limit =
      std::string(geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "") +
      "prlimit --nproc=";
  // Returns whether it passes when it may have so many threads; where not, it says why.
  const auto passes = [&](const std::string& program, const std::string& arguments, int threads) {
    fs::copy_file(std::string(GENESIS_BIN_DIR) + "/" + program, train.folder.path() / program,
                  fs::copy_options::skip_existing);
    const std::string command = "cd " + train.folder.path().string() + " && " + limit +
                                std::to_string(threads) + " ./" + program + " " + arguments;
    const int code = WEXITSTATUS(std::system((command + " >stdout 2>err").c_str()));
    if (code == 0) return true;
    const std::string err = read_text_file(train.folder.file("err"));
    INFO(err);
    CHECK(code == 1);
    CHECK(err.ends_with(program +
                        ": cannot start a thread: a limit on processes (ulimit -u, a container's) or on "
                        "memory is reached\n"));
    return false;
  };
  for (const auto& [program, arguments] :
       {std::pair{"genesis_generate", "run"}, std::pair{"genesis_eval", "run --data valid"},
        std::pair{"genesis_tokenize", "train --vocab-size 512 --output o.model page.md"},
        std::pair{"genesis_tokenize", "encode --tokenizer t.model --output o page.md"}}) {
    CHECK(!passes(program, arguments, 1));
  }
  // The first thread that is lacking, or a later one: the run's folder is never claimed.
  int threads = 1;
  while (threads < 16 && !passes("genesis_train", "c.yaml --run_dir=other --device.threads=2", threads)) {
    CHECK(!train.exists("other"));
    ++threads;
  }
  CHECK((threads > 2 && threads < 16));
  for (const char* left : {"o.model", "o.bin", "o.bin.tmp"}) CHECK(!train.exists(left));
}
