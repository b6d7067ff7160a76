#include "io/tokenizer_json.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>
#include <vector>

#include "io/file.h"
#include "io/utf8.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

using nlohmann::json;

// A piece that text is made of.
struct Piece {
  std::string text;
  float score = 0;
};

// SentencePiece joins, of all neighbours that make a piece, those of the highest score, the first in the text among
// equal ones: a list of merges in that order, each piece's by the length of its left part.
json merges_of(std::vector<Piece> pieces) {
  std::unordered_set<std::string_view> known;
  for (const Piece& p : pieces) known.insert(p.text);
  std::vector<const Piece*> order;
  for (const Piece& p : pieces) order.push_back(&p);
  std::stable_sort(order.begin(), order.end(),
                   [](const Piece* a, const Piece* b) { return a->score > b->score; });
  json merges = json::array();
  for (const Piece* p : order) {
    const std::string_view text = p->text;
    for (size_t at = utf8_length(text[0]); at < text.size(); at += utf8_length(text[at])) {
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      if (known.contains(left) && known.contains(right)) merges.push_back({left, right});
    }
  }
  return merges;
}

json control_piece(int32_t id, const std::string& name) {
  return {{"id", id},        {"content", name},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// The end of a document before a text, as before each in training.
json beginning(int32_t eod, const std::string& name) {
  const json token{{"SpecialToken", {{"id", name}, {"type_id", 0}}}},
      first{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, second{{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  return {{"type", "TemplateProcessing"},
          {"single", {token, first}},
          {"pair", {token, first, second}},
          {"special_tokens", {{name, {{"id", name}, {"ids", {eod}}, {"tokens", {name}}}}}}};
}

}  // namespace

std::optional<TokenizerJson> tokenizer_json(const Tokenizer& tokenizer) {
  const std::string path = tokenizer.path().string();
  sentencepiece::SentencePieceProcessor model;
  check(model.LoadFromSerializedProto(read_text_file(path)).ok(), path + ": is not a SentencePiece model");
  json vocabulary = json::object(), added = json::array();
  std::vector<Piece> pieces;
  std::set<float> scores;
  for (int32_t id = 0; id < model.GetPieceSize(); ++id) {
    std::string name = model.IdToPiece(id);
    if (model.IsControl(id) || model.IsUnknown(id)) {
      added.push_back(control_piece(id, name));
    } else if (!model.IsByte(id)) {
      // In a model of BPE minus a number of its own.
      const float score = model.GetScore(id);
      if (score > 0 || score != std::floor(score) || !scores.insert(score).second || model.IsUnused(id))
        return std::nullopt;
      name = tokenizer.piece(id);
      pieces.push_back({name, score});
    }
    vocabulary[name] = id;
  }
  const std::string eod = model.IdToPiece(tokenizer.eod());
  json root{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added}};
  root["normalizer"] = nullptr;
  root["pre_tokenizer"] = nullptr;
  root["post_processor"] = beginning(tokenizer.eod(), eod);
  root["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  root["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", true},
                   {"ignore_merges", false},
                   {"vocab", vocabulary},
                   {"merges", merges_of(pieces)}};
  return TokenizerJson{root.dump() + "\n", eod};
}

}  // namespace genesis
