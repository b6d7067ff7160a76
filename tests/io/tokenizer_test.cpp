#include "io/tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include "io/mapped_file.h"
#include "io/utf8.h"
#include "tests/io/hard_text.h"
#include "tests/io/small_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

TEST_CASE("text comes back byte for byte") {
  const TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  for (const std::string text :
       {"", " ", "    leading", "trailing   ", "a\tb\n\nc\r\nd\r", "\xf0\x9f\x98\x80\xf0\x9f\x98\x80",
        "\xe2\x96\x81", "a\xe2\x96\x81 \xe2\x96\x81", "\xe2\x96\x85", "<0x41></s><unk>",
        "\xef\xac\x81 \xef\xbc\xa1 \xe2\x85\xa3"}) {
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
  const std::string nul("a\0b\0\0", 5);
  CHECK(tokenizer.decode(tokenizer.encode(nul)) == nul);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(random);
    const auto ids = tokenizer.encode(text);
    REQUIRE(tokenizer.decode(ids) == text);
    for (int32_t id : ids)
      REQUIRE(!tokenizer.piece(id).empty());  // no control or unknown piece from any text
  }
}

TEST_CASE("encoding part by part gives what SentencePiece gives for the whole text") {
  const TempFolder folder;
  const bool words = GENERATE(true, false);
  const Tokenizer tokenizer =
      learn(folder.file("t.model"), design_page(), {.vocab_size = 700, .split_by_whitespace = words});
  sentencepiece::SentencePieceProcessor whole;
  REQUIRE(whole.Load(folder.file("t.model")).ok());
  CHECK(tokenizer.encode(design_page()) == whole.EncodeAsIds(design_page()));
  CHECK(tokenizer.encode(design_page()).size() < design_page().size() / 2);  // learned pieces are in use
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    std::string text = random_text(random);
    for (const std::string& special : {std::string("\xe2\x96\x81"), std::string(1, '\0')}) {
      for (size_t at; (at = text.find(special)) != std::string::npos;) text.erase(at, special.size());
    }
    REQUIRE(tokenizer.encode(text) == whole.EncodeAsIds(text));
  }
}

TEST_CASE("a text can be cut where can_cut says so, and only there in general") {
  const TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  const std::string text = design_page().substr(0, 700) + "\xe2\x96\x81 \xf0\x9f\x98\x80  \n\n x";
  const auto whole = tokenizer.encode(text);
  size_t cuts = 0, others = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && utf8_continues(text[at])) continue;
    auto parts = tokenizer.encode(std::string_view(text).substr(0, at));
    const auto second = tokenizer.encode(std::string_view(text).substr(at));
    parts.insert(parts.end(), second.begin(), second.end());
    if (tokenizer.can_cut(text, at)) {
      REQUIRE(parts == whole);
      ++cuts;
    } else {
      others += parts != whole;
    }
  }
  CHECK(cuts > 100);
  CHECK(others > 100);
}

TEST_CASE("learning is repeatable, and the hash is the model file's") {
  const TempFolder folder;
  const Tokenizer a = small_tokenizer(folder.file("a.model")), b = small_tokenizer(folder.file("b.model"));
  CHECK(a.hash() == b.hash());
  CHECK(a.hash() == sum_of(MappedFile(folder.file("a.model")).bytes()).xxh3);
  CHECK(a.vocab_size() == 600);
  CHECK(a.eod() == 1);
  CHECK(a.piece(a.eod()).empty());
  const Tokenizer c = learn(folder.file("c.model"), design_page(), {.vocab_size = 601});
  CHECK(c.hash() != a.hash());
}

TEST_CASE("what the tokenizer learns from is not lost to SentencePiece's limits") {
  const TempFolder folder;
  // One line of 200 KB; sentences with SentencePiece's mark for unknown characters, which it would leave out,
  // and with a NUL; a word longer than a sentence may be.
  std::string text;
  for (int i = 0; i < 10000; ++i) text += " zymurgy quagga";
  for (int i = 0; i < 1000; ++i) text += "\n floccinau \xe2\x96\x85" + std::string(1, '\0');
  for (int i = 0; i < 1000; ++i) text += "xylophone";
  const Tokenizer tokenizer =
      learn(folder.file("t.model"), text, {.vocab_size = 320, .character_coverage = 1});
  CHECK(tokenizer.encode(" zymurgy").size() == 1);
  CHECK(tokenizer.encode(" quagga").size() == 1);
  CHECK(tokenizer.encode(" floccinau").size() == 1);
  CHECK(tokenizer.encode("xylophonexylophone").size() <= 4);  // wherever its pieces begin
  CHECK(tokenizer.encode("\xe2\x96\x85").size() == 3);
}

TEST_CASE("a corpus beyond max_bytes is sampled evenly, and every time the same") {
  const TempFolder folder;
  const auto texts = [] {  // the second half of the corpus is other words
    return [i = 0]() mutable -> std::optional<std::string> {
      if (i == 4000) return std::nullopt;
      return ++i <= 2000 ? "alpha beta gamma alpha beta\n" : "delta epsilon zeta delta epsilon\n";
    };
  };
  const TokenizerOptions options{.vocab_size = 300, .max_bytes = 20000};
  const std::string model = Tokenizer::train(options, texts());
  CHECK(model == Tokenizer::train(options, texts()));
  replace_text_file(folder.file("t.model"), model);
  const Tokenizer tokenizer(folder.file("t.model"));
  CHECK(tokenizer.encode(" beta").size() == 1);
  CHECK(tokenizer.encode(" epsilon").size() == 1);
}

TEST_CASE("a sample keeps the corpus's first sentence, whole") {
  const TempFolder folder;
  const Tokenizer tokenizer =
      learn(folder.file("t.model"), "ab ab ab ab", {.vocab_size = 262, .max_bytes = 1});
  CHECK(tokenizer.encode("ab").size() == 1);
}

namespace {

// Scripts with spaces between words and without: code points from, to (both of the script), and how often in
// ten characters a space or a line end comes.
struct Script {
  const char* name;
  char32_t from, to;
  int spaces;
};
constexpr Script kScripts[] = {
    {"one letter", 'a', 'a', 0},
    {"two letters", 'a', 'b', 0},
    {"digits", '0', '9', 0},
    {"Latin", 'a', 'z', 2},
    {"Latin unbroken", 'a', 'z', 0},
    {"spaces", ' ', ' ', 0},
    {"line ends", '\n', '\n', 0},
    {"Thai", 0xe01, 0xe2e, 0},
    {"Devanagari", 0x905, 0x939, 2},
    {"Arabic", 0x627, 0x64a, 2},
    {"Hiragana", 0x3041, 0x3093, 0},
    {"Chinese", 0x4e00, 0x4e80, 0},
    {"Hangul", 0xac00, 0xac60, 2},
    {"emoji", 0x1f600, 0x1f64f, 0},
    {"tabs", '\t', '\t', 0},
    {"SentencePiece's", 0x2580, 0x2586, 1},
    {"private use", 0xe000, 0xe020, 0},
    {"controls", 0x1, 0x1f, 0},
};

std::string text_of(const Script& script, std::mt19937& random, int characters) {
  std::string text;
  for (int i = 0; i < characters; ++i) {
    const bool space = int(random() % 10) < script.spaces;
    text +=
        space ? (random() % 8 ? " " : "\n") : utf8(script.from + random() % (script.to - script.from + 1));
  }
  return text;
}

}  // namespace

TEST_CASE("a tokenizer is learned from any script, and gives back every text") {
  const TempFolder folder;
  std::mt19937 random(7);
  std::string all = design_page().substr(0, 1000);
  for (const Script& script : kScripts) all += text_of(script, random, 50);
  std::vector<std::string> learned;
  for (const Script& script : kScripts) learned.push_back(text_of(script, random, 600));
  for (int i = 0; i < 6; ++i) {  // mixtures: a rare space among letters, a script within another
    std::string mixed;
    while (mixed.size() < 800)
      mixed += text_of(kScripts[random() % std::size(kScripts)], random, 1 << random() % 10);
    learned.push_back(mixed);
  }
  for (size_t i = 0; i < learned.size(); ++i) {
    INFO((i < std::size(kScripts) ? kScripts[i].name : "mixed"));
    std::optional<std::string> rest = learned[i];
    const auto train = [&](int pieces) {
      rest = learned[i];
      return learn(folder.file("t.model"), *rest, {.vocab_size = pieces});
    };
    // Far too many pieces: the refusal says how many there are, and that many can be had.
    const std::string refusal = message_of([&] { train(50000); });
    REQUIRE(lacks(refusal, " pieces, not 50000: ask for at most ") == "");
    const int most = std::stoi(refusal.substr(refusal.find("at most ") + 8));
    const Tokenizer tokenizer = train(std::min(most, 700));
    CHECK(tokenizer.decode(tokenizer.encode(all)) == all);
    CHECK(tokenizer.decode(tokenizer.encode(learned[i])) == learned[i]);
    CHECK(train(most).vocab_size() == most);
    if (most < 700) CHECK(message_of([&] { train(most + 1); }) != "");
  }
}

TEST_CASE("a space is a piece however rare it is") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "ACGT"[i * i % 7 % 4];
  for (const std::string& sample : {text, text + " ", " " + text + text, text.substr(0, 5)}) {
    const Tokenizer tokenizer =
        learn(folder.file("t.model"), sample, {.vocab_size = 262, .character_coverage = 0.98});
    CHECK(tokenizer.encode(" ").size() == 1);
    CHECK(tokenizer.decode(tokenizer.encode(" a  b ")) == " a  b ");
  }
}

TEST_CASE("learning says what it lacks") {
  const auto train = [](const std::string& text, const TokenizerOptions& options) {
    return message_of([&] {
      std::optional<std::string> rest = text;
      Tokenizer::train(options, [&] { return std::exchange(rest, std::nullopt); });
    });
  };
  CHECK(train("", {}).find("no text to learn from") != std::string::npos);
  CHECK(train("a few words and no more", {.vocab_size = 4096}).find("pieces, not 4096") != std::string::npos);
  CHECK(train("some text", {.vocab_size = 258}).find("at least 259 pieces, 256 of them bytes; found 258") !=
        std::string::npos);
  CHECK(
      train("some text", {.vocab_size = 300, .character_coverage = 0.5}).find("from 0.98 to 1, found 0.5") !=
      std::string::npos);
  const std::string crowded = train(design_page(), {.vocab_size = 262});
  CHECK(crowded.find("cannot learn a tokenizer of 262 pieces") != std::string::npos);
  CHECK(crowded.find("ask for more pieces, or lower the character coverage") != std::string::npos);
  const size_t number = crowded.find("fixed pieces are ") + 17;  // how many would do: and they do
  const int fewest = std::stoi(crowded.substr(number));
  CHECK(train(design_page(), {.vocab_size = fewest}) == "");
  CHECK(lacks(train(design_page(), {.vocab_size = fewest - 1}),
              "fixed pieces are " + std::to_string(fewest)) == "");
}

TEST_CASE("a model that cannot keep the promise is refused") {
  const TempFolder folder;
  CHECK(message_of([&] { Tokenizer(folder.file("none.model")); }).find("none.model") != std::string::npos);
  replace_text_file(folder.file("junk.model"), "this is not a model");
  CHECK(message_of([&] {
          Tokenizer(folder.file("junk.model"));
        }).find("junk.model: is not a SentencePiece model") != std::string::npos);
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  CHECK(message_of([&] { tokenizer.piece(600); }).find("token 600 is outside the vocabulary of 600") !=
        std::string::npos);
  CHECK(message_of([&] { tokenizer.decode(std::vector<int32_t>{-1}); }) != "");
}

TEST_CASE("a model without a piece for the space is refused with this reason") {
  const TempFolder folder;
  folder.put("dna.txt", "ACGTACGTTTACGACGACGT");
  const std::string model = folder.file("dna");
  REQUIRE(sentencepiece::SentencePieceTrainer::Train(
              "--input=" + folder.file("dna.txt") + " --model_prefix=" + model +
              " --model_type=bpe --vocab_size=264 --byte_fallback --normalization_rule_name=identity "
              "--add_dummy_prefix=false --remove_extra_whitespaces=false --hard_vocab_limit=false "
              "--minloglevel=2 --unk_id=0 --eos_id=1 --bos_id=-1")
              .ok());
  CHECK(lacks(message_of([&] { Tokenizer(model + ".model"); }), "dna.model: has no piece for the space") ==
        "");
}

TEST_CASE("a stream of ids becomes whole characters") {
  const TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_text(random);
    StreamDecoder stream(tokenizer);
    std::string all;
    for (int32_t id : tokenizer.encode(text)) {
      const std::string part = stream.push(id);
      REQUIRE(utf8_valid_prefix(part) == part.size());
      all += part;
    }
    CHECK(stream.finish().empty());
    REQUIRE(all == text);
  }
  const auto bytes = [&](std::initializer_list<int> values) {  // as a model might make them up
    StreamDecoder stream(tokenizer);
    std::string all;
    for (int value : values) all += stream.push(tokenizer.encode(std::string(1, '\0'))[0] + value);
    return all + stream.finish();
  };
  CHECK(bytes({0xf0, 0x9f, 0x98, 0x80}) == "\xf0\x9f\x98\x80");
  CHECK(bytes({0x80}) == "\xef\xbf\xbd");
  CHECK(bytes({0xf0, 0x9f}) == "\xef\xbf\xbd");
  CHECK(bytes({0xc3, 0x41}) ==
        "\xef\xbf\xbd"
        "A");
  CHECK(bytes({0xc3, 0xc3, 0xa9}) == "\xef\xbf\xbd\xc3\xa9");
}
