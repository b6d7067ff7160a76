// Sequences that share steps are what they are alone.
#include "apps/generate/cached_model.h"

#include <algorithm>
#include <cstring>

#include "apps/generate/generator.h"
#include "kernels/common/random.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

using Rows = std::vector<std::vector<float>>;  // logits by position

std::vector<int32_t> sequence(int64_t length, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back(int32_t(random_bits(seed, 0, uint64_t(i)) % kTinyV));
  return tokens;
}

void keep(CachedModel& model, const std::vector<SequenceToken>& step, std::vector<Rows>& rows,
          const std::vector<size_t>& of_row) {
  const std::span<const float> logits = model.run(step);
  const auto V = size_t(model.vocab_size());
  for (size_t i = 0; i < step.size(); ++i) {
    const auto row = logits.subspan(i * V, V);
    rows[of_row[i]][size_t(step[i].position)] = {row.begin(), row.end()};
  }
}

// Sequences that come and go: each takes a slot when one is free and advances by 1 to 9 tokens a step.
std::vector<Rows> together(CachedModel& model, const std::vector<std::vector<int32_t>>& sequences,
                           uint64_t seed) {
  std::vector<Rows> rows;
  for (const auto& s : sequences) rows.emplace_back(s.size());
  struct Running {
    size_t sequence;
    int32_t slot;
    size_t done;
  };
  std::vector<Running> running;
  std::vector<int32_t> free;
  for (int32_t s = 0; s < model.cache().slots; ++s) free.push_back(s);
  uint64_t draws = 0;
  for (size_t next = 0; next < sequences.size() || !running.empty();) {
    for (; next < sequences.size() && !free.empty(); free.pop_back())
      running.push_back({next++, free.back(), 0});
    std::vector<SequenceToken> step;
    std::vector<size_t> of_row;
    for (Running& r : running) {
      const auto& tokens = sequences[r.sequence];
      const size_t wanted = 1 + random_bits(seed, 1, draws++) % 9;
      for (size_t n = std::min({wanted, tokens.size() - r.done, size_t(model.most_tokens()) - step.size()});
           n > 0; --n) {
        step.push_back({tokens[r.done], r.slot, int32_t(r.done)});
        of_row.push_back(r.sequence);
        ++r.done;
      }
    }
    keep(model, step, rows, of_row);
    std::erase_if(running, [&](const Running& r) {
      if (r.done < sequences[r.sequence].size()) return false;
      free.push_back(r.slot);
      return true;
    });
  }
  return rows;
}

std::vector<Rows> one_by_one(CachedModel& model, const std::vector<std::vector<int32_t>>& sequences) {
  std::vector<Rows> rows;
  for (size_t s = 0; s < sequences.size(); ++s) {
    rows.emplace_back(sequences[s].size());
    for (size_t t = 0; t < sequences[s].size(); ++t) {
      keep(model, {{sequences[s][t], 1, int32_t(t)}}, rows, {s});
    }
  }
  return rows;
}

}  // namespace

TEST_CASE(
    "cached model: sequences of unequal length that share steps have the logits they have alone, bit for "
    "bit") {
  TinyRun tiny;
  std::vector<std::vector<int32_t>> sequences;
  for (const int64_t length : {1, 30, 7, 31, 2, 16, 25, 9, 12})
    sequences.push_back(sequence(length, uint64_t(length)));
  // Wide enough for a sum's order to show: products of one row have another.
  const std::vector<std::string> wide = {"--train.steps=3", "--model.hidden_size=320",
                                         "--model.ffn_size=864"};
  for (const char* dtype : {"f32", "bf16"}) {
    for (const bool recurrent : {false, true}) {
      INFO(dtype << (recurrent ? ", recurrent" : ", dense"));
      std::vector<std::string> overrides = wide;
      overrides.push_back(std::string("--device.dtype=") + dtype);
      if (recurrent) {
        for (const char* o : {"--model.layers=3", "--model.recurrence.prelude=1", "--model.recurrence.core=1",
                              "--model.recurrence.coda=1", "--model.recurrence.steps=2"}) {
          overrides.emplace_back(o);
        }
      }
      const Config config = tiny.config(std::string(dtype) + (recurrent ? "r" : "d"), overrides);
      tiny.trainer(config)->run();
      const std::string checkpoint = find_checkpoint(config.run_dir, [](const std::string&) {});
      CachedModel model(config, checkpoint, {4, 32}, recurrent ? 2 : 1, CachedModel::Rows::same_bits);
      CHECK(model.most_tokens() >= 16);
      const std::vector<Rows> alone = one_by_one(model, sequences);
      CHECK(together(model, sequences, 1) == alone);
      CHECK(together(model, sequences, 2) == alone);

      // The fewest rows: the same but for the order of sums.
      Generator generator(config, checkpoint, 32, recurrent ? 2 : 1);
      const auto& tokens = sequences[1];
      generator.append(std::span(tokens).first(20));
      const auto logits = generator.append(std::span(tokens).subspan(20));
      double difference = 0;
      for (size_t v = 0; v < logits.size(); ++v) {
        difference = std::max(difference, std::abs(double(logits[v]) - double(alone[1].back()[v])));
      }
      CHECK(difference < (std::string(dtype) == "f32" ? 1e-5 : 3e-2));
    }
  }
}

TEST_CASE("generator: says when its sequence is full") {
  TinyRun tiny;
  const Config config = tiny.config("run", {"--train.steps=3"});
  tiny.trainer(config)->run();
  Generator generator(config, find_checkpoint(config.run_dir, [](const std::string&) {}), 3, 1);
  generator.append(sequence(3, 1));
  CHECK(lacks(message_of([&] { generator.append(sequence(1, 1)); }),
              "grown to 4 tokens, and the cache holds 3") == "");
}
