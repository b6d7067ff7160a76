// tokenizer.json, held to what Hugging Face's tokenizers library makes of one (its BPE, written anew here: the library
// itself is asked by tests/torch/transformers_test.py).
#include "io/tokenizer_json.h"

#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include <map>
#include <nlohmann/json.hpp>

#include "io/utf8.h"
#include "tests/io/hard_text.h"
#include "tests/io/small_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace genesis;
using nlohmann::json;

namespace {

class Bpe {
 public:
  explicit Bpe(const json& model) : vocabulary_(model.at("vocab").get<std::map<std::string, int32_t>>()) {
    for (const auto& merge : model.at("merges")) {
      ranks_.emplace(std::pair(merge[0].get<std::string>(), merge[1].get<std::string>()), ranks_.size());
    }
  }

  // Characters, or bytes of those that are no piece; then always the neighbours of the lowest rank, the first ones of
  // several.
  std::vector<int32_t> encode(const std::string& text) const {
    std::vector<std::string> symbols;
    for (size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
      const std::string c = text.substr(at, utf8_length(text[at]));
      if (vocabulary_.contains(c)) {
        symbols.push_back(c);
      } else {
        for (const char byte : c) symbols.push_back(fmt::format("<0x{:02X}>", uint8_t(byte)));
      }
    }
    for (;;) {
      size_t best = ranks_.size(), place = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = ranks_.find({symbols[i], symbols[i + 1]});
        if (found == ranks_.end() || found->second >= best) continue;
        best = found->second;
        place = i;
      }
      if (best == ranks_.size()) break;
      symbols[place] += symbols[place + 1];
      symbols.erase(symbols.begin() + ptrdiff_t(place) + 1);
    }
    std::vector<int32_t> ids;
    for (const std::string& s : symbols) ids.push_back(vocabulary_.at(s));
    return ids;
  }

 private:
  std::map<std::string, int32_t> vocabulary_;
  std::map<std::pair<std::string, std::string>, size_t> ranks_;
};

}  // namespace

TEST_CASE("tokenizer.json's merges give the ids that are given here, for any text") {
  const TempFolder folder;
  const bool words = GENERATE(true, false);
  const Tokenizer tokenizer =
      learn(folder.file("t.model"), design_page(), {.vocab_size = 900, .split_by_whitespace = words});
  const auto written = tokenizer_json(tokenizer);
  REQUIRE(written.has_value());
  CHECK(written->eod == "</s>");
  const Bpe bpe(json::parse(written->text).at("model"));
  for (const std::string text :
       {"", " ", "    a", "a  ", "\xe2\x96\x81", "a\xe2\x96\x81 \xe2\x96\x81", "<0x41></s><unk>",
        "aaaaaaaaaaaaa", "ababababababa", "                                     ",
        "-----------------=====|||", "0123456789"}) {
    CHECK(bpe.encode(text) == tokenizer.encode(text));
  }
  const std::string nul("a\0b\0\0", 5);
  CHECK(bpe.encode(nul) == tokenizer.encode(nul));
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random_text(random);
    REQUIRE(bpe.encode(text) == tokenizer.encode(text));
  }
  const std::string page = design_page();
  for (size_t at = 0; at < page.size(); at = page.find('\n', at) + 1) {
    const std::string line = page.substr(at, page.find('\n', at) - at).substr(0, 300);
    if (utf8_valid_prefix(line) == line.size()) REQUIRE(bpe.encode(line) == tokenizer.encode(line));
  }
}

TEST_CASE(
    "tokenizer.json names the control pieces, puts a document's end first, and takes bytes for the rest") {
  const TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  const json root = json::parse(tokenizer_json(tokenizer)->text);
  REQUIRE(root["added_tokens"].size() == 2);
  CHECK(root["added_tokens"][0]["content"] == "<unk>");
  CHECK(root["added_tokens"][1] == json::parse(R"({"id": 1, "content": "</s>", "single_word": false,
    "lstrip": false, "rstrip": false, "normalized": false, "special": true})"));
  CHECK(root["post_processor"] == json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "</s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "</s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}})"));
  CHECK(root["decoder"] ==
        json::parse(R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]})"));
  CHECK(root["normalizer"].is_null());
  CHECK(root["pre_tokenizer"].is_null());
  const json& model = root["model"];
  CHECK(model["type"] == "BPE");
  CHECK(model["byte_fallback"] == true);
  CHECK(model["unk_token"].is_null());
  REQUIRE(model["vocab"].size() == 600);
  for (const auto& [piece, id] : model["vocab"].items()) {
    const std::string& text = tokenizer.piece(id.get<int32_t>());
    const bool byte = piece.size() == 6 && piece.starts_with("<0x");
    CHECK((text == piece || (byte && text.size() == 1) || (text.empty() && id.get<int32_t>() < 2)));
  }
}

TEST_CASE("a tokenizer that is not one of BPE has no tokenizer.json") {
  const TempFolder folder;
  folder.put("page.txt", design_page());
  REQUIRE(sentencepiece::SentencePieceTrainer::Train(
              "--input=" + folder.file("page.txt") + " --model_prefix=" + folder.file("unigram") +
              " --model_type=unigram --vocab_size=600 --byte_fallback --normalization_rule_name=identity "
              "--add_dummy_prefix=false --remove_extra_whitespaces=false --hard_vocab_limit=false "
              "--minloglevel=2 --unk_id=0 --eos_id=1 --bos_id=-1 --required_chars=\xe2\x96\x81")
              .ok());
  CHECK_FALSE(tokenizer_json(Tokenizer(folder.file("unigram.model"))).has_value());
}
