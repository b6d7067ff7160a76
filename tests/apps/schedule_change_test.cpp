#include "apps/train/schedule_change.h"

#include <cmath>
#include <string>
#include <vector>

#include "io/file.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

using Overrides = std::vector<std::string>;

constexpr double kLr = 3e-3, kMin = 1e-4;

Config config(const Overrides& overrides) {
  Overrides all{"--optim.lr=3e-3", "--schedule.min_lr=1e-4", "--schedule.warmup_steps=5",
                "--train.steps=100"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parse_config(
      "run_dir: r\nmodel: {vocab_size: 8, hidden_size: 8, layers: 1, heads: 1, kv_heads: 1, head_size: 8, "
      "ffn_size: 8}\n"
      "data: {train: d, sequence_length: 8}\ntrain: {batch_size: 1, micro_batch: 1}\n",
      "test.yaml", all);
}

struct GoingOn {
  int64_t begin = 0;
  std::string refusal, said;
};

// A run of `before` that reached `step`, gone on with as `after`.
GoingOn go_on(const Overrides& before, int64_t step, const Overrides& after, int64_t begin = 0) {
  TrainState state;
  state.step = step;
  state.schedule_begin = begin;
  state.config = print_config(config(before));
  GoingOn g;
  g.refusal = message_of([&] {
    g.begin = schedule_begin(config(after), state, [&](const std::string& line) { g.said += line + "\n"; });
  });
  return g;
}

const Overrides kWsd{"--schedule.kind=wsd", "--schedule.decay_steps=20"},
    kConstant{"--schedule.kind=constant"};

Overrides with(Overrides list, const Overrides& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

}  // namespace

TEST_CASE("a change that would move the next step's rate is refused, with both rates and the step") {
  const auto finished = go_on({}, 100, {"--train.steps=200"});
  INFO(finished.refusal);
  for (const char* part : {"train.steps was 100, is 200", "step 101", "instead of 0.0001",
                           "schedule.on_resume", "extend", "restart", "100 steps that are left"}) {
    CHECK(finished.refusal.find(part) != std::string::npos);
  }
  // Cosine and wsd made longer, at their end and before; and every other field, where it counts.
  CHECK(!go_on({}, 50, {"--train.steps=101"}).refusal.empty());
  CHECK(!go_on(kWsd, 100, with(kWsd, {"--train.steps=200"})).refusal.empty());
  CHECK(!go_on(kWsd, 90, with(kWsd, {"--train.steps=101"})).refusal.empty());
  CHECK(!go_on({}, 50, {"--optim.lr=3.1e-3"}).refusal.empty());
  CHECK(!go_on({}, 2, {"--optim.lr=3.1e-3"}).refusal.empty());
  CHECK(!go_on({}, 50, {"--schedule.min_lr=2e-4"}).refusal.empty());
  CHECK(!go_on({}, 2, {"--schedule.warmup_steps=6"}).refusal.empty());
  CHECK(!go_on({}, 50, {"--schedule.warmup_steps=6"}).refusal.empty());
  CHECK(!go_on({}, 50, {"--schedule.kind=constant"}).refusal.empty());
  CHECK(!go_on(kConstant, 50, {}).refusal.empty());
  CHECK(!go_on(kWsd, 90, with(kWsd, {"--schedule.decay_steps=30"})).refusal.empty());
  // A rate that had come down to nothing.
  CHECK(go_on({"--schedule.min_lr=0"}, 100, {"--schedule.min_lr=0", "--train.steps=200"})
            .refusal.find("instead of 0. ") != std::string::npos);
}

TEST_CASE("what leaves the next step's rate alone goes on without a word") {
  for (const Overrides& kind : {Overrides{}, kWsd, kConstant}) {
    for (int64_t step = 0; step <= 100; ++step) {
      for (const Overrides& more :
           {Overrides{}, Overrides{"--checkpoint.every=7"}, Overrides{"--optim.beta2=0.99"},
            Overrides{"--schedule.on_resume=restart"}}) {
        const auto g = go_on(kind, step, with(kind, more));
        REQUIRE(g.refusal == "");
        REQUIRE(g.said == "");
        REQUIRE(g.begin == 0);
      }
    }
  }
  CHECK(go_on(kConstant, 50, with(kConstant, {"--train.steps=1000"})).refusal.empty());
  CHECK(go_on(kConstant, 100, with(kConstant, {"--train.steps=1000"})).refusal.empty());
  CHECK(go_on(kWsd, 79, with(kWsd, {"--train.steps=1000"})).refusal.empty());  // still stable
  CHECK(go_on(kWsd, 50, with(kWsd, {"--schedule.decay_steps=30"})).refusal.empty());
  CHECK(go_on({}, 2, {"--train.steps=1000"}).refusal.empty());  // warming up
  CHECK(go_on({}, 2, kConstant).refusal.empty());
  // No next step: nothing to compare.
  CHECK(go_on({}, 100, {"--optim.lr=1"}).refusal.empty());
  CHECK(go_on({}, 60, {"--train.steps=60"}).refusal.empty());
}

TEST_CASE("extend goes on in the new schedule, restart begins it at the next step") {
  const Overrides longer{"--train.steps=200"};
  const auto extended = go_on({}, 100, with(longer, {"--schedule.on_resume=extend"}));
  CHECK(extended.refusal == "");
  CHECK(extended.begin == 0);
  CHECK(extended.said.find("the learning rate of step 101 is ") == 0);

  const auto restarted = go_on({}, 100, with(longer, {"--schedule.on_resume=restart"}));
  CHECK(restarted.refusal == "");
  CHECK(restarted.begin == 100);
  CHECK(restarted.said.find("the schedule begins again, over the 100 steps that are left") !=
        std::string::npos);
  TrainState state;
  state.step = state.schedule_begin = 100;
  CHECK(next_learning_rate(config(longer), state) == kLr / 5);  // warming up
  state.step = 104;
  CHECK(next_learning_rate(config(longer), state) == kLr);
  state.step = 199;
  CHECK(next_learning_rate(config(longer), state) == kMin);

  // A schedule that began again is compared, extended and begun again as such.
  const Overrides both = with(longer, {"--schedule.on_resume=restart"});
  CHECK(go_on(both, 150, both, 100).begin == 100);
  CHECK(go_on(both, 150, longer, 100).begin == 100);
  CHECK(!go_on(both, 150, {"--train.steps=300"}, 100).refusal.empty());
  CHECK(go_on(both, 150, {"--train.steps=300", "--schedule.on_resume=extend"}, 100).begin == 100);
  CHECK(go_on(both, 150, {"--train.steps=300", "--schedule.on_resume=restart"}, 100).begin == 150);

  CHECK(go_on({}, 97, {"--optim.lr=1e-2", "--schedule.on_resume=restart"}).refusal.find("3 steps are left") !=
        std::string::npos);
  CHECK(go_on(kWsd, 90, with(kWsd, {"--optim.lr=1e-2", "--schedule.on_resume=restart"}))
            .refusal.find("schedule.decay_steps (20)") != std::string::npos);
}

TEST_CASE("a schedule that began again is kept by every later resume, to the same bits") {
  TinyRun tiny;
  const auto run = [&](const std::string& name, const Overrides& overrides, int64_t stop_at) {
    const auto trainer = tiny.trainer(tiny.config(name, overrides));
    trainer->run([&] { return trainer->state().step == stop_at; });
    return state_bytes(trainer->storage());
  };
  const Overrides first{"--train.steps=6", "--checkpoint.keep=0"},
      longer{"--train.steps=16", "--checkpoint.keep=0"},
      restart = with(longer, {"--schedule.on_resume=restart"});
  for (const std::string name : {"straight", "stopped", "killed"}) run(name, first, 6);

  // Refused, with nothing written.
  const std::string held = read_text_file(tiny.folder.file("straight/config.yaml"));
  CHECK(message_of([&] { run("straight", longer, 0); }).find("schedule.on_resume") != std::string::npos);
  CHECK(read_text_file(tiny.folder.file("straight/config.yaml")) == held);

  const std::string expected = run("straight", restart, 16);
  run("stopped", restart, 9);
  run("stopped", restart, 12);
  CHECK(run("stopped", longer, 16) == expected);  // the choice was made

  // Killed before anything was saved of the new schedule: the choice is made again, and comes out the same.
  run("killed", restart, 9);
  std::filesystem::remove_all(tiny.folder.file("killed/checkpoints/step_00000009"));
  CHECK(run("killed", restart, 16) == expected);

  run("extended", first, 6);
  CHECK(run("extended", with(longer, {"--schedule.on_resume=extend"}), 16) != expected);
}
