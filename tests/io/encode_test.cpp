#include "io/encode.h"

#include <random>
#include <sstream>

#include "kernels/common/parallel.h"
#include "tests/io/small_dataset.h"
#include "tests/io/small_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

namespace {

const auto kNobody = [](int64_t) {};

TokenDataset encoded(const TempFolder& folder, const Tokenizer& tokenizer, Corpus& corpus) {
  DatasetWriter writer(folder.path() / "d", tokenizer.vocab_size(), tokenizer.eod(), tokenizer.hash());
  encode_corpus(corpus, tokenizer, writer, nullptr, kNobody);
  writer.finish();
  return TokenDataset(folder.path() / "d");
}

std::vector<int32_t> tokens_of(const Tokenizer& tokenizer, const std::vector<std::string>& documents) {
  std::vector<int32_t> ids;
  for (const std::string& text : documents) {
    const auto more = tokenizer.encode(text);
    ids.insert(ids.end(), more.begin(), more.end());
    ids.push_back(tokenizer.eod());
  }
  return ids;
}

// The design page over and over with its paragraphs shuffled: much text that is not the same everywhere.
std::string much_text(size_t bytes) {
  std::vector<std::string> paragraphs;
  std::istringstream page(design_page());
  for (std::string line; std::getline(page, line);) paragraphs.push_back(line + "\n");
  std::mt19937 random(6);
  std::string text;
  while (text.size() < bytes) text += paragraphs[random() % paragraphs.size()];
  return text;
}

}  // namespace

TEST_CASE("a long document is encoded as if it were encoded whole, by any number of threads") {
  const TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  const std::string text = much_text(20 * kMaxBlock);
  folder.put("a.txt", text);
  const auto expected = tokens_of(tokenizer, {text});
  const int threads = thread_count();
  for (int n : {1, 2, 5}) {
    set_thread_count(n);
    Corpus corpus({.files = {folder.file("a.txt")}});
    const TokenDataset data = encoded(folder, tokenizer, corpus);
    CHECK(all_tokens(data) == expected);
    CHECK(data.documents() == 1);
    CHECK(data.bytes() == int64_t(text.size()));
    CHECK(data.info().tokenizer_hash == tokenizer.hash());
  }
  set_thread_count(threads);
}

TEST_CASE("documents keep their order, and their text comes back") {
  const TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  std::vector<std::string> documents;
  std::string file, joined;
  const std::string text = much_text(4 * kMaxBlock);
  for (size_t at = 0, i = 0; at < text.size(); ++i) {
    const size_t size = i % 5 == 0 ? 30000 : 1 + i * 37 % 2000;
    std::string document;
    for (char c : text.substr(at, size)) document += uint8_t(c) < 0x80 ? c : '?';
    documents.push_back(document);
    file += (i ? "<|>" : "") + document;
    joined += (i ? "\n==\n" : "") + document;
    at += size;
  }
  folder.put("a.txt", file);
  Corpus corpus({.files = {folder.file("a.txt")}, .separator = "<|>"});
  const TokenDataset data = encoded(folder, tokenizer, corpus);
  CHECK(data.documents() == int64_t(documents.size()));
  CHECK(all_tokens(data) == tokens_of(tokenizer, documents));
  std::ostringstream out;
  int64_t decoded = 0;
  decode_dataset(data, tokenizer, "\n==\n", out, [&](int64_t tokens) { decoded += tokens; });
  CHECK(out.str() == joined);
  CHECK(decoded == data.tokens());
}

TEST_CASE("a run without any cut is encoded too, and comes back") {
  const TempFolder folder;
  const std::string text(2 * kMaxBlock + 100, 'a');
  const Tokenizer tokenizer =
      learn(folder.file("t.model"), design_page() + std::string(5000, 'a'), {.vocab_size = 600});
  REQUIRE(!tokenizer.can_cut("aa", 1));
  folder.put("a.txt", text);
  Corpus corpus({.files = {folder.file("a.txt")}});
  std::ostringstream out;
  decode_dataset(encoded(folder, tokenizer, corpus), tokenizer, "", out, kNobody);
  CHECK(out.str() == text);
}

TEST_CASE("held-out text goes to its own dataset and nowhere else") {
  const TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  const std::string text = much_text(3 * kMaxBlock);
  folder.put("a.txt", text);
  const CorpusOptions options{.files = {folder.file("a.txt")}};
  Corpus counted(options);
  int64_t read = 0;
  CHECK(count_text(counted, [&](int64_t bytes) { read += bytes; }) == int64_t(text.size()));
  CHECK(read == int64_t(text.size()));
  Corpus corpus(options, int64_t(text.size() * 9 / 10));
  const auto writer = [&](const char* name) {
    return DatasetWriter(folder.path() / name, tokenizer.vocab_size(), tokenizer.eod(), tokenizer.hash());
  };
  DatasetWriter train = writer("train"), validation = writer("validation");
  encode_corpus(corpus, tokenizer, train, &validation, kNobody);
  CHECK(train.finish().bytes + validation.finish().bytes == int64_t(text.size()));
  std::ostringstream first, second;
  decode_dataset(TokenDataset(folder.path() / "train"), tokenizer, "", first, kNobody);
  decode_dataset(TokenDataset(folder.path() / "validation"), tokenizer, "", second, kNobody);
  CHECK(first.str() + second.str() == text);
  CHECK(first.str().back() == '\n');
  CHECK(first.str().size() >= text.size() * 9 / 10);
  CHECK(second.str().size() > text.size() / 20);
}

TEST_CASE("bad text in the middle of a corpus is an error, and no dataset appears") {
  const TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  folder.put("a.txt", much_text(3 * kMaxBlock) + "\xff");
  Corpus corpus({.files = {folder.file("a.txt")}});
  CHECK(message_of([&] { encoded(folder, tokenizer, corpus); }).find("is not UTF-8") != std::string::npos);
  CHECK(message_of([&] { TokenDataset(folder.path() / "d"); }) != "");
  CHECK(!std::filesystem::exists(folder.path() / "d.bin.tmp"));
}

TEST_CASE("a dataset of another tokenizer is not decoded") {
  const TempFolder folder;
  const Tokenizer tokenizer = small_tokenizer(folder.file("t.model"));
  write_dataset(folder.path() / "d", {3});
  std::ostringstream out;
  const std::string message =
      message_of([&] { decode_dataset(TokenDataset(folder.path() / "d"), tokenizer, "", out, kNobody); });
  CHECK(message.find("hash 0123456789abcdef") != std::string::npos);
  CHECK(message.find(tokenizer.hash()) != std::string::npos);
  CHECK(out.str().empty());
}
