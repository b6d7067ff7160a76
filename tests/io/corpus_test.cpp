#include "io/corpus.h"

#include <random>

#include "io/utf8.h"
#include "tests/io/compress.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

namespace {

struct Document {
  std::string text;
  bool held_out = false;
  bool operator==(const Document&) const = default;
};

std::vector<Document> documents_of(Corpus& corpus) {
  std::vector<Document> documents;
  bool inside = false;
  while (const auto block = corpus.next()) {
    REQUIRE(block->text.size() <= kMaxBlock);
    REQUIRE(utf8_valid_prefix(block->text) == block->text.size());
    if (!inside) documents.push_back({"", block->held_out});
    REQUIRE(documents.back().held_out == block->held_out);
    documents.back().text += block->text;
    inside = !block->ends_document;
  }
  REQUIRE(!inside);
  CHECK(corpus.consumed() == corpus.file_bytes());
  return documents;
}

std::vector<std::string> read(const CorpusOptions& options) {
  Corpus corpus(options);
  std::vector<std::string> texts;
  for (const Document& document : documents_of(corpus)) texts.push_back(document.text);
  return texts;
}

std::string refusal(const CorpusOptions& options) {
  return message_of([&] {
    Corpus corpus(options);
    while (corpus.next()) {
    }
  });
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Text of many blocks, with characters of every length across the blocks' borders.
std::string long_text(size_t bytes) {
  const std::vector<std::string> words = {"word ", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                          "\n",    "\t x "};
  std::mt19937 random(5);
  std::string text;
  while (text.size() < bytes) text += words[random() % words.size()];
  return text;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a plain text file is a document, byte for byte") {
  const TempFolder folder;
  const std::string a = folder.put("a.txt", "\xef\xbb\xbfone\r\n\ttwo  \n\n"),
                    b = folder.put("b.txt", "three");
  CHECK(read({.files = {a, b}}) == Texts{"\xef\xbb\xbfone\r\n\ttwo  \n\n", "three"});
  CHECK(read({.files = {folder.put("empty", ""), b}}) == Texts{"three"});
  for (size_t bytes : {kMaxBlock - 1, kMaxBlock, kMaxBlock + 1, 5 * kMaxBlock / 2}) {
    const std::string text = long_text(bytes);
    CHECK(read({.files = {folder.put("long", text)}}) == Texts{text});
    CHECK(read({.files = {folder.put("ascii", std::string(bytes, 'x'))}}) == Texts{std::string(bytes, 'x')});
  }
}

TEST_CASE("a separator ends a document, wherever it falls") {
  const TempFolder folder;
  const std::string a = folder.put("a.txt", "one\n---\ntwo\n---\n\n---\nthree");
  CHECK(read({.files = {a}, .separator = "\n---\n"}) == Texts{"one", "two", "three"});
  const std::string b = folder.put("b.txt", "##one######two##");
  CHECK(read({.files = {b}, .separator = "##"}) == Texts{"one", "two"});
  CHECK(read({.files = {folder.put("c.txt", "####")}, .separator = "##"}) == Texts{});
  for (size_t at = kMaxBlock - 4; at <= kMaxBlock + 2; ++at) {  // across the border of the blocks
    const std::string first(at, 'a'), second(2 * kMaxBlock, 'b');
    const std::string path = folder.put("d.txt", first + "<|>" + second + "<|>");
    CHECK(read({.files = {path}, .separator = "<|>"}) == Texts{first, second});
  }
  std::string many;
  for (int i = 0; i < 200000; ++i) many += "x\n";
  CHECK(read({.files = {folder.put("e.txt", many)}, .separator = "\n"}).size() == 200000);
}

TEST_CASE("a JSONL line is a document, its field the text") {
  const TempFolder folder;
  const std::string a =
      folder.put("a.jsonl",
                 "{\"text\": \"one\\n\\u00e9\\ud83d\\ude00\\u0000\", \"id\": 1}\r\n\n  \n"
                 "{\"body\": \"other\", \"text\": \"\"}\n{\"body\": \"b\", \"text\": \"two\"}");
  CHECK(read({.files = {a}}) == Texts{std::string("one\n\xc3\xa9\xf0\x9f\x98\x80\0", 11), "two"});
  const std::string b = folder.put("b.ndjson", "{\"body\": \"x\"}\n");
  CHECK(read({.files = {b}, .field = "body"}) == Texts{"x"});
  const std::string text = long_text(3 * kMaxBlock);
  std::string escaped;
  for (char c : text) escaped += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  const std::string c = folder.put("c.jsonl", "{\"text\": \"" + escaped + "\"}\n{\"text\": \"last\"}\n");
  CHECK(read({.files = {c}}) == Texts{text, "last"});
}

TEST_CASE("gzip and zstd are read as what they hold, members and frames in a row too") {
  const TempFolder folder;
  const std::string text = long_text(2 * kMaxBlock), line = "{\"text\": \"json\"}\n";
  const std::vector<std::string> files = {
      folder.put("a.txt.gz", gzipped(text)),
      folder.put("b.txt.zst", zstandard(text)),
      folder.put("c.gz", gzipped("one ") + gzipped("") + gzipped("two")),
      folder.put("d.zst", zstandard("one ") + zstandard("") + zstandard("two")),
      folder.put("e.jsonl.gz", gzipped(line)),
      folder.put("f.jsonl.zst", zstandard(line)),
      folder.put("g.txt", gzipped("told by its bytes")),
  };
  CHECK(read({.files = files}) ==
        Texts{text, text, "one two", "one two", "json", "json", "told by its bytes"});
}

TEST_CASE("damaged or truncated compressed files are errors wherever they break") {
  const TempFolder folder;
  const std::string text = long_text(3000);
  for (const bool zstd : {false, true}) {
    const std::string whole = zstd ? zstandard(text) : gzipped(text), name = zstd ? "a.zst" : "a.gz";
    for (size_t size = 4; size < whole.size(); size += 1 + whole.size() / 50) {
      const std::string path = folder.put(name, whole.substr(0, size));
      CHECK(
          has(refusal({.files = {path}}), path + ": the " + (zstd ? "zstd" : "gzip") + " data is cut short"));
    }
    const std::string junk = folder.put(name, whole + "junk");
    CHECK(has(refusal({.files = {junk}}), "damaged"));
  }
  std::string gzip = gzipped(text);
  gzip[gzip.size() - 6] ^= 1;  // the checksum
  CHECK(has(refusal({.files = {folder.put("b.gz", gzip)}}), "damaged"));
  std::string zstd = zstandard(text);
  zstd[zstd.size() / 2] ^= 0x55;
  CHECK(refusal({.files = {folder.put("b.zst", zstd)}}) != "");
  CHECK(has(refusal({.files = {folder.put("c.gz", "plain")}}), "not compressed as its name says"));
  CHECK(has(refusal({.files = {folder.put("c.zst", "")}}), "not compressed as its name says"));
}

TEST_CASE("bytes that are not UTF-8 are named with their place") {
  const TempFolder folder;
  const auto at = [&](const std::string& bytes) { return refusal({.files = {folder.put("a.txt", bytes)}}); };
  CHECK(has(at("abc\xff"), folder.file("a.txt") + ": is not UTF-8 at byte 3 of its text (value 255)"));
  CHECK(has(at("caf\xe9 latin"), "at byte 3"));
  CHECK(has(at("\xed\xa0\x80"), "at byte 0"));    // a surrogate
  CHECK(has(at("a\xc0\x80"), "at byte 1"));       // an overlong NUL
  CHECK(has(at("ab\xf0\x9f\x98"), "at byte 2"));  // cut short
  CHECK(has(at("ab\xf4\x90\x80\x80"), "at byte 2"));
  for (size_t place : {kMaxBlock - 2, kMaxBlock - 1, kMaxBlock, 3 * kMaxBlock + 17}) {
    std::string text(4 * kMaxBlock, 'x');
    text[place] = '\x80';
    CHECK(has(at(text), "at byte " + std::to_string(place) + " "));
    text.replace(place, 2, "\xc3(");  // begins like a character, and is none
    CHECK(has(at(text), "at byte " + std::to_string(place) + " "));
  }
  CHECK(has(refusal({.files = {folder.put("b.gz", gzipped("xy\xff"))}}), "at byte 2 of its text"));
  CHECK(has(refusal({.files = {folder.put("c.jsonl", "{\"text\": \"\xff\"}")}}), "at byte 10"));
}

TEST_CASE("a JSONL line that is wrong is named with its number") {
  const TempFolder folder;
  const auto at = [&](const std::string& line) {
    const std::string path =
        folder.put("a.jsonl", "{\"text\": \"fine\"}\n\n" + line + "\n{\"text\": \"fine\"}\n");
    const std::string message = refusal({.files = {path}});
    CHECK(has(message, path + ": line 3 "));
    return message;
  };
  CHECK(has(at("{\"text\": "), "is not JSON"));
  CHECK(has(at("{\"text\": \"a\"} extra"), "is not JSON"));
  CHECK(has(at("{\"text\": \"a\tb\"}"), "is not JSON"));
  CHECK(has(at("{\"text\": \"\\ud800\"}"), "is not JSON"));
  CHECK(has(at("plain"), "is not JSON"));
  CHECK(has(at("{\"body\": \"a\"}"), "has no field \"text\""));
  CHECK(has(at("{\"text\": 3}"), "whose field \"text\" is a string"));
  CHECK(has(at("[\"text\"]"), "whose field \"text\" is a string"));
}

TEST_CASE("files that cannot be read are named before anything is read") {
  const TempFolder folder;
  const std::string good = folder.put("a.txt", "text");
  CHECK(has(message_of([&] {
              Corpus({.files = {good, folder.file("none.txt")}});
            }),
            folder.file("none.txt")));
  CHECK(has(message_of([&] { Corpus({.files = {folder.path().string()}}); }), "is a folder"));
  CHECK(has(message_of([&] { Corpus(CorpusOptions{}); }), "no text file"));
}

TEST_CASE("the end of a corpus is held out from a line's begin on") {
  const TempFolder folder;
  const std::string a = folder.put("a", "one\ntwo\nthree\n"), b = folder.put("b", "four");
  const auto split = [&](int64_t from) {
    Corpus corpus({.files = {a, b}}, from);
    return documents_of(corpus);
  };
  const std::vector<Document> whole = {{"one\n", false}, {"two\nthree\n", true}, {"four", true}};
  for (int64_t from : {1, 2, 3, 4}) CHECK(split(from) == whole);
  CHECK(split(5) == std::vector<Document>{{"one\ntwo\n", false}, {"three\n", true}, {"four", true}});
  CHECK(split(14) == std::vector<Document>{{"one\ntwo\nthree\n", false}, {"four", true}});
  CHECK(split(15) == std::vector<Document>{{"one\ntwo\nthree\n", false}, {"four", false}});
  for (size_t from : {kMaxBlock - 1, kMaxBlock, kMaxBlock + 1, 2 * kMaxBlock}) {
    for (size_t line_end : {from, from + 100, from + kMaxBlock - 3, 3 * kMaxBlock - 1}) {
      std::string text(3 * kMaxBlock, 'x');
      text[line_end - 1] = '\n';
      Corpus corpus({.files = {folder.put("c", text)}}, int64_t(from));
      const auto documents = documents_of(corpus);
      REQUIRE(documents.size() == 2);
      CHECK(documents[0].text == text.substr(0, line_end));
      CHECK(!documents[0].held_out);
      CHECK(documents[1].text == text.substr(line_end));
      CHECK(documents[1].held_out);
    }
  }
  std::string text(2 * kMaxBlock, 'x');  // a line end as the very last byte: nothing is left to hold out
  text.back() = '\n';
  Corpus corpus({.files = {folder.put("d", text)}}, int64_t(kMaxBlock));
  CHECK(documents_of(corpus) == std::vector<Document>{{text, false}});
}
