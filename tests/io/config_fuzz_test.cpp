// Damaged configs: whatever was done to one, reading it either gives a config that prints and reads back
// equal, or throws genesis::Error with a message of printable text. Anything else, a crash above all, fails.
#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include "io/config.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

Config valid_config() {
  Config c;
  c.run_dir = "runs/x";
  c.model.vocab_size = 512;
  c.model.hidden_size = 64;
  c.model.heads = c.model.kv_heads = 4;
  c.model.head_size = 16;
  c.model.ffn_size = 128;
  c.model.layers = 6;
  c.model.recurrence = {1, 4, 1, 2};
  c.data.train = {{"data/a", 1.0}, {"data/b \"c\"", 0.25}};
  c.data.validation = {"data/v"};
  c.data.sequence_length = 128;
  c.train.steps = 100;
  c.train.batch_size = 8;
  c.train.micro_batch = 4;
  c.optim.lr = 1e-3;
  c.eval.recurrence = {1, 2};
  return c;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string damaged(std::string text) {
    for (uint64_t n = 1 + below(3) * below(2); n > 0; --n) damage(text);
    return text;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  void damage(std::string& text) {
    static constexpr auto kPieces = std::to_array<std::string_view>({"{",      "}",
                                                                     "[",      "]",
                                                                     ",",      ":",
                                                                     ": ",     "\n",
                                                                     "\n  ",   "\n\n",
                                                                     "\t",     "\"",
                                                                     "'",      "#",
                                                                     "&a ",    "*a",
                                                                     "!",      "!!str ",
                                                                     "<<: ",   "? ",
                                                                     "- ",     "--- ",
                                                                     "...",    "| ",
                                                                     "> ",     "~",
                                                                     "null",   "yes",
                                                                     "true",   "010",
                                                                     "1e3",    "-1",
                                                                     "0",      ".inf",
                                                                     ".nan",   "1e999",
                                                                     "\\",     "\\x1",
                                                                     "%",      "@",
                                                                     "`",      "\x80",
                                                                     "\xff",   "\xef\xbb\xbf",
                                                                     "\r",     "\x1b",
                                                                     "optim",  "lr",
                                                                     "model.", "99999999999999999999"});
    const uint64_t at = below(text.size() + 1);
    const uint64_t length = std::min<uint64_t>(below(20), text.size() - at);
    switch (below(16)) {
      case 0:  // deep
        text.insert(at, std::string(below(700), "[{\n -"[below(5)]));
        break;
      case 1:
      case 2:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 3:
      case 4:
        text.replace(at, length, kPieces[below(kPieces.size())]);
        break;
      case 5:
        text.insert(below(text.size() + 1), text.substr(at, below(60)));  // a part of it again
        break;
      case 6:
        text.erase(at, length);
        break;
      case 7:
        text.insert(at, 1, static_cast<char>(below(256)));
        break;
      default:  // one character for another: the mildest, so that many configs can still be read
        if (at < text.size()) text[at] = static_cast<char>(' ' + below(95));
    }
  }

  std::mt19937_64 random_;
};

struct Outcome {
  int read = 0, refused = 0;
};

Outcome read_damaged(uint64_t count) {
  const std::string text = print_config(valid_config());
  REQUIRE(parse_config(text, "valid") == valid_config());
  Outcome outcome;
  for (uint64_t seed = 0; seed < count; ++seed) {
    const std::string damaged = Mutator(seed).damaged(text);
    Config config;
    const std::string message = message_of([&] { config = parse_config(damaged, "damaged"); });
    INFO("seed " << seed << "\n" << damaged << "\n" << message);
    if (message.empty()) {
      ++outcome.read;
      if (parse_config(print_config(config), "printed") != config) FAIL("reads back as another config");
    } else {
      ++outcome.refused;
      if (!message.starts_with("damaged")) FAIL("the message does not begin with the file's name");
      const bool printable =
          std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' || c < 0; });
      if (!printable) FAIL("the message holds a control character");
    }
  }
  return outcome;
}

}  // namespace

TEST_CASE("a damaged config is read or refused, never more") {
  const Outcome outcome = read_damaged(2000);
  CHECK(outcome.read > 50);
  CHECK(outcome.refused > 1000);
}

TEST_CASE("a damaged config is read or refused, never more: long", "[.][long]") { read_damaged(300000); }
