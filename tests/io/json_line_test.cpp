#include "io/json_line.h"

#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("a changed JSON line is taken or refused as another parser takes or refuses it") {
  // No \u and no exponent, where that parser asks for more than the grammar does.
  const std::string line =
      R"({"text": "one\n\"q\" Zürich 東京", "id": [-0.5, {"a": null}, [], {}], "text": "two\\", "y": true})";
  const std::string bits = "{}[]\",:\\ 01-+.tn\n\x01\xff";
  std::mt19937 random(4);
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string changed = line;
    for (auto n = random() % 3; n-- > 0;) {
      const size_t at = random() % changed.size();
      const char bit = bits[random() % bits.size()];
      switch (random() % 4) {
        case 0:
          changed[at] = bit;
          break;
        case 1:
          changed.insert(at, 1, bit);
          break;
        case 2:
          changed.erase(at, 1 + random() % 4);
          break;
        default:
          changed.insert(at, changed.substr(random() % changed.size(), random() % 20));
      }
    }
    INFO(changed);
    std::string text;
    const LineProblem problem = read_field(changed, "text", text);
    const auto other = nlohmann::json::parse(changed, nullptr, false);
    const bool json = problem.kind != "is not JSON" && problem.kind != "is not UTF-8";
    REQUIRE(json == !other.is_discarded());
    const bool there = json && other.is_object() && other.contains("text") && other["text"].is_string();
    REQUIRE(!problem == there);
    if (there) REQUIRE(text == other["text"].get<std::string>());
    taken += there;
  }
  CHECK(taken > 3000);
  CHECK(taken < 17000);
}
