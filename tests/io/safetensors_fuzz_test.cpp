// Damaged safetensors files: whatever was done to one, reading it either gives views that lie inside it, side
// by side, or throws genesis::Error. Anything else, a crash above all, fails.
#include <cstring>
#include <random>

#include "io/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::vector<char> file() {
    std::string header = entry("a", "F32", "[2,3]", "[0,24]") + "," +
                         entry("b.weight", "BF16", "[4]", "[24,32]") + "," +
                         entry("c", "U8", "[]", "[32,33]") + R"(,"__metadata__":{"format":"pt"})";
    header = "{" + header + "}";
    for (uint64_t n = below(4); n > 0; --n) mutate(header);
    uint64_t length = header.size();
    if (below(8) == 0) length = below(2) == 0 ? random_() : length + below(5) - 2;
    std::string all(8, '\0');
    std::memcpy(all.data(), &length, 8);
    all += header + std::string(33, 'x');
    if (below(8) == 0) all.resize(below(all.size() + 1));
    if (below(8) == 0) all.append(below(40), '\0');
    return {all.begin(),
            all.end()};  // of exactly this size, so that a sanitizer sees the first byte beyond it
  }

 private:
  static std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                           const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}";
  }

  uint64_t below(uint64_t n) { return random_() % n; }

  void mutate(std::string& text) {
    static const std::vector<std::string> kPieces{"{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  ",",
                                                  ":",
                                                  "\"",
                                                  "\\u0000",
                                                  "\\ud800",
                                                  "null",
                                                  "-1",
                                                  "0",
                                                  "1e9",
                                                  "0.5",
                                                  "24",
                                                  "18446744073709551615",
                                                  "9223372036854775807",
                                                  "4294967296",
                                                  "\"a\":",
                                                  "\"__metadata__\":",
                                                  "{\"dtype\":",
                                                  "F32",
                                                  "I64",
                                                  " ",
                                                  "\n",
                                                  std::string(1, '\0'),
                                                  "\xff",
                                                  "\xef\xbb\xbf",
                                                  std::string(40, '['),
                                                  "//x\n"};
    const uint64_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        text.erase(at, 1 + below(12));
        break;
      case 2:
        if (at < text.size()) text[at] = char(below(256));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(40)));
        break;
      case 4:
        change_number(text, at);
        break;
    }
  }

  void change_number(std::string& text, uint64_t from) {
    const size_t begin = text.find_first_of("0123456789", from);
    if (begin == std::string::npos) return;
    const size_t end = std::min(text.size(), text.find_first_not_of("0123456789", begin));
    text.replace(begin, end - begin, std::to_string(below(2) == 0 ? below(40) : random_()));
  }

  std::mt19937_64 random_;
};

// True if the file was read.
bool read_or_refuse(const std::vector<char>& file) {
  const auto bytes = std::as_bytes(std::span(file));
  bool read = false;
  const std::string refused = message_of([&] {
    const SafetensorsContent content = parse_safetensors(bytes, "fuzz");
    const std::byte* next = nullptr;
    for (const TensorView& t : content.tensors) {
      const auto* data = static_cast<const std::byte*>(t.data);
      if (next != nullptr) REQUIRE(data == next);
      next = data + byte_size(t.dtype, t.shape, t.name);
      REQUIRE(data >= bytes.data() + 8);
    }
    if (next != nullptr) REQUIRE(next == bytes.data() + bytes.size());
    read = true;
  });
  REQUIRE(read == refused.empty());
  if (!read) REQUIRE(refused.starts_with("fuzz: "));
  return read;
}

void fuzz(uint64_t seed, int rounds) {
  Mutator mutator(seed);
  int read = 0;
  for (int i = 0; i < rounds; ++i) read += read_or_refuse(mutator.file());
  CHECK(read > rounds / 20);  // both outcomes are common, or the mutations are of the wrong strength
  CHECK(read < rounds / 2);
}

}  // namespace

TEST_CASE("safetensors: damaged headers are read soundly or refused") { fuzz(1, 5000); }

TEST_CASE("safetensors: damaged headers are read soundly or refused, long", "[.][long]") {
  fuzz(2, 2'000'000);
}
