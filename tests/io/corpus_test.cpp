#include "io/corpus.h"

#include <sys/stat.h>

#include <fstream>
#include <future>
#include <map>
#include <random>
#include <thread>

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
  if (corpus.file_bytes() > 0) CHECK(corpus.consumed() == corpus.file_bytes());
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
  // One that occurs in no file is a mistake; in some, it is not.
  CHECK(lacks(refusal({.files = {a, b}, .separator = "\n=="}), "the separator does not occur in the text") ==
        "");
  CHECK(read({.files = {a, b}, .separator = "##"}).size() == 3);
  const std::string json = folder.put("x.jsonl", "{\"text\": \"##\"}");
  CHECK(lacks(refusal({.files = {json}, .separator = "##"}), "a line of JSONL is a document") == "");
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
  CHECK(has(at("{\"text\": \"\\ud800\"}"), "has a lone surrogate in its field \"text\": \\ud800 at byte 10"));
  CHECK(has(at("plain"), "is not JSON"));
  CHECK(has(at("{\"body\": \"a\"}"), "has no field \"text\""));
  CHECK(has(at("{\"text\": 3}"), "whose field \"text\" is a string"));
  CHECK(has(at("[\"text\"]"), "whose field \"text\" is a string: it is an array"));
  CHECK(has(at("{\"text\": null}"), "whose field \"text\" is a string: that is null"));
  CHECK(has(at("\xef\xbb\xbf{\"text\": \"a\"}"), "a byte-order mark"));
  CHECK(has(at("{\"body\": \"a\", \"n\": 1}"), "it has \"body\": --field names the one to read"));
  CHECK(has(at("{\"text\": "), "--skip-invalid"));
}

TEST_CASE("a message names the keys that a line has, however long or many they are") {
  const TempFolder folder;
  std::string many, wide = "\u4e00";
  for (int i = 0; i < 5000; ++i) many += (i > 0 ? ", \"k" : "\"k") + std::to_string(i) + "\": \"v\"";
  for (int i = 0; i < 17; ++i) wide += wide;
  for (const std::string& fields :
       {many, "\"" + std::string(1000000, 'k') + "\": \"v\"", "\"" + wide + "\": \"v\""}) {
    const std::string message = refusal({.files = {folder.put("a.jsonl", "{" + fields + "}")}});
    CHECK(has(message, "has no field \"text\"; it has \""));
    CHECK(has(message, "...: --field names the one to read"));
    CHECK(message.size() < folder.file("a.jsonl").size() + 300);
    CHECK(utf8_valid_prefix(message) == message.size());
  }
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

TEST_CASE("names that say JSON are read as JSON lines, in any spelling") {
  const TempFolder folder;
  const std::string line = "{\"text\": \"json\"}\n";
  std::vector<std::string> files;
  for (const char* name : {"a.json", "b.JSONL", "c.NdJson", "d.Json"})
    files.push_back(folder.put(name, line));
  for (const char* name : {"part-0.json.gz", "e.jsonl.GZ"}) files.push_back(folder.put(name, gzipped(line)));
  for (const char* name : {"f.jsonl.zstd", "g.json.zst"}) files.push_back(folder.put(name, zstandard(line)));
  CHECK(read({.files = files}) == Texts(files.size(), "json"));
  CHECK(read({.files = {files[0], files[4]}, .format = TextFormat::text}) == Texts{line, line});
  CHECK(read({.files = {folder.put("h.txt", line)}, .format = TextFormat::jsonl}) == Texts{"json"});
  CHECK(has(refusal({.files = {folder.put("i.zstd", "plain")}}), "not compressed as its name says"));
}

TEST_CASE("JSON lines under a name that says plain text are refused") {
  const TempFolder folder;
  const std::string line = "{\"text\": \"json\"}",
                    big = "{\"text\": \"" + std::string(3 * kMaxBlock, 'x') + "\"}";
  for (const std::string& content :
       Texts{line, line + "\n" + line, "\n \r\n" + line + "\n", "\xef\xbb\xbf" + line,
             "{ \"id\" : 1e400 , \"text\": null }\nrest", big, big + "\n" + line}) {
    CHECK(lacks(refusal({.files = {folder.put("a.txt", content)}}),
                "a.txt: begins as JSON lines do but is not named so: say --format jsonl, or --format "
                "text") == "");
    CHECK(refusal({.files = {folder.put("b.gz", gzipped(content))}}) != "");
    CHECK(read({.files = {folder.file("a.txt")}, .format = TextFormat::text}) == Texts{content});
  }
  for (const std::string& text : Texts{"{", "{}", "{\"a\", \"b\"}\n", "{\"a\": b}\n", "[{\"a\": 1}]",
                                       "{a: 1}", "{\n\"a\": 1}", "text {\"a\": 1}"}) {
    CHECK(read({.files = {folder.put("a.txt", text)}}) == Texts{text});
  }
}

TEST_CASE("a JSON file that is not lines of objects is told so") {
  const TempFolder folder;
  const auto at = [&](const std::string& content, bool skip) {
    return refusal({.files = {folder.put("a.json", content)}, .skip_invalid = skip});
  };
  for (const bool skip : {false, true}) {
    CHECK(has(at("[{\"text\": \"a\"}, {\"text\": \"b\"}]", skip),
              "is a JSON array; expected an object a line"));
    CHECK(has(at("\xef\xbb\xbf \n[\n{\"text\": \"a\"},\n{\"text\": \"b\"}\n]", skip), "is a JSON array"));
  }
  for (const std::string& pretty :
       Texts{"{\n  \"text\": \"a\"\n}\n", "\n{\"text\": \"a\",\n\"id\": 1}", "{\"id\": [\n1]}"}) {
    CHECK(has(at(pretty, false), "is it an object over several lines?"));
  }
  CHECK(!has(at("{\"text\": \"cut", false), "several lines"));
  CHECK(!has(at("{\"text\": \"a\"}\n{\"text\":\n", false), "several lines"));
}

TEST_CASE("fields that nobody asked for do not matter, if they are JSON") {
  const TempFolder folder;
  std::string deep = "1";
  for (int i = 0; i < 20000; ++i) deep = (i % 2 ? "[" : "{\"a\":") + std::move(deep);
  for (int i = 0; i < 20000; ++i) deep += i % 2 ? "]" : "}";
  std::string content;
  const std::vector<std::string> others = {"123456789012345678901234567890",
                                           "1e400",
                                           "-1E-999",
                                           "-0.0e+0",
                                           "[[], {}, [{}], [1, [2]]]",
                                           "\"\\ud800\"",
                                           "\"\\udc00\\ud800x\"",
                                           "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\"",
                                           "null",
                                           "true",
                                           "false",
                                           "\"text\"",
                                           deep};
  for (const std::string& other : others) {
    content += "{\"id\": " + other + ", \"text\": \"a\", \"\\ud800\": " + other + "}\n";
  }
  CHECK(read({.files = {folder.put("a.jsonl", content)}}) == Texts(others.size(), "a"));
  for (const char* bad : {"01",    "1.",      ".5",          "+1",       "1e",   "-",          "nul",
                          "tru e", "\"\\x\"", "\"\\u12g4\"", "\"a\nb\"", "[1,]", "{\"a\":1,}", "{1:2}",
                          "[1}",   "'a'",     "NaN",         "",         "[",    "1 2",        "\"a"}) {
    const std::string line = std::string("{\"text\": \"a\", \"id\": ") + bad + "}";
    INFO(line);
    CHECK(has(refusal({.files = {folder.put("b.jsonl", line)}}), "is not JSON"));
  }
}

TEST_CASE("of a key that appears twice the last value counts, however it is written") {
  const TempFolder folder;
  const std::string a =
      folder.put("a.jsonl",
                 "{\"text\": \"first\", \"text\": \"last\"}\n"
                 "{\"text\": null, \"te\\u0078t\": \"escaped\"}\n"
                 "{\"x\": {\"text\": \"inner\"}, \"text\": \"outer\", \"y\": [{\"text\": 1}]}");
  CHECK(read({.files = {a}}) == Texts{"last", "escaped", "outer"});
}

TEST_CASE("lines that give no text are left out and counted, if so asked") {
  const TempFolder folder;
  const std::string a =
      folder.put("a.jsonl",
                 "{\"text\": \"one\"}\n{\"text\": null}\n{\"id\": 1}\n\nplain\n"
                 "{\"text\": \"\xff\"}\n{\"text\": \"\\udfff\"}\n{\"text\": 3}\n{\"text\": null}\n"
                 "{\"text\": \"two\"}\n{\"text\": \"cut");
  Corpus corpus({.files = {a}, .skip_invalid = true});
  const auto documents = documents_of(corpus);
  REQUIRE(documents.size() == 2);
  CHECK(documents[1].text == "two");
  std::map<std::string, int64_t> counts;
  for (const auto& [kind, skipped] : corpus.findings().skipped) counts[kind] = skipped.lines;
  const std::string not_text = "is not an object whose field \"text\" is a string: that is ";
  CHECK(counts == std::map<std::string, int64_t>{{not_text + "null", 2},
                                                 {not_text + "a number", 1},
                                                 {"has no field \"text\"", 1},
                                                 {"is not JSON", 2},
                                                 {"is not UTF-8", 1},
                                                 {"has a lone surrogate in its field \"text\"", 1}});
  CHECK(has(corpus.findings().skipped.at(not_text + "null").first, a + ": line 2 "));
  CHECK(has(corpus.findings().skipped.at("is not JSON").first, a + ": line 5 "));
}

TEST_CASE("a byte-order mark is skipped before JSON lines, kept in text, and told where it is not UTF-8's") {
  const TempFolder folder;
  const std::string mark = "\xef\xbb\xbf", line = "{\"text\": \"a\"}\n";
  CHECK(read({.files = {folder.put("a.jsonl", mark + line), folder.put("b.jsonl.gz", gzipped(mark + line)),
                        folder.put("c.jsonl", mark)}}) == Texts{"a", "a"});
  CHECK(read({.files = {folder.put("a.txt", mark + "a")}}) == Texts{mark + "a"});
  for (const char* name : {"d.jsonl", "d.txt"}) {
    const auto at = [&](const std::string& bytes) { return refusal({.files = {folder.put(name, bytes)}}); };
    CHECK(has(at(std::string("\xff\xfe{\0", 4)), "is UTF-16 by its byte-order mark"));
    CHECK(has(at(std::string("\xfe\xff\0{", 4)), "is UTF-16 by its byte-order mark"));
    CHECK(has(at(std::string("\xff\xfe\0\0{\0\0\0", 8)), "is UTF-32 by its byte-order mark"));
    CHECK(has(at(std::string("\0\0\xfe\xff\0\0\0{", 8)), "is UTF-32 by its byte-order mark"));
  }
}

TEST_CASE("zstd windows of any size are read, and frames to be skipped") {
  const TempFolder folder;
  const std::string text = long_text(5000);
  for (int log = 10; log <= 31; ++log) {
    std::string file = zstandard_stream(text);
    file[5] =
        char((log - 10) << 3);  // RFC 8878, 3.1.1.1.2: the window's size; what lies further back is not used
    if (log < 13) continue;     // smaller than the text's matches may reach
    CHECK(read({.files = {folder.put("a.zst", file)}}) == Texts{text});
  }
  std::string too_large = zstandard_stream(text);
  too_large[5] = char(22 << 3);
  CHECK(has(refusal({.files = {folder.put("a.zst", too_large)}}), "has a zstd window of over 2 GiB"));
  std::string dictionary = zstandard_stream(text);  // RFC 8878, 3.1.1.1.3: an id of one byte
  dictionary[4] = char(dictionary[4] | 1);
  dictionary.insert(6, 1, '\7');
  CHECK(has(refusal({.files = {folder.put("a.zst", dictionary)}}), "was compressed with a dictionary"));
  const std::string skipped = std::string("\x50\x2a\x4d\x18\4\0\0\0abcd", 12);  // as pzstd begins
  CHECK(read({.files = {folder.put("b.zst", skipped + zstandard(text))}}) == Texts{text});
}

TEST_CASE("packings that are not read are named") {
  const TempFolder folder;
  const auto at = [&](const std::string& bytes) { return refusal({.files = {folder.put("a", bytes)}}); };
  CHECK(has(at(std::string("\xfd"
                           "7zXZ\0\0",
                           7)),
            "a: is xz; expected text"));
  CHECK(has(at("PAR1\x15\x04"), "is Parquet"));
  CHECK(has(at("PK\x03\x04"), "is a ZIP archive"));
  CHECK(has(at("BZh91AY&SY"), "is bzip2"));
  CHECK(at("PAR1 is a word") == "");
}

TEST_CASE("a pipe is text like any other, and what is waited for is said") {
  const TempFolder folder;
  const std::string fifo = folder.file("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const std::string text = long_text(3 * kMaxBlock);
  std::promise<void> told;
  std::future<void> waiting = told.get_future();
  std::thread writer([&] {
    waiting.wait();  // nobody writes before the reader has said that it waits
    std::ofstream(fifo, std::ios::binary) << text;
  });
  std::string notice;
  const auto texts = read({.files = {fifo}, .notice = [&](const std::string& line) {
                             notice = line;
                             told.set_value();
                           }});
  writer.join();
  CHECK(texts == Texts{text});
  CHECK(lacks(notice, "waiting for text from " + fifo) == "");
}
