#include "io/file.h"

#include <sys/stat.h>

#include <filesystem>

#include "io/json.h"
#include "io/mapped_file.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

TEST_CASE("a written file has the sum of its bytes, in whatever pieces they came") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += std::to_string(i);
  REQUIRE(text.size() > (size_t(1) << 20));
  FileWriter writer(folder.file("a"));
  size_t at = 0;
  for (size_t piece = 0; at < text.size(); at += piece, piece = 3 * piece + 1) {
    piece = std::min(piece, text.size() - at);
    writer.write(text.data() + at, piece);
  }
  const FileSum sum = writer.finish();
  CHECK(read_text_file(folder.file("a")) == text);
  CHECK(sum == sum_of(std::as_bytes(std::span(text))));
  CHECK(sum.bytes == text.size());
  // XXH3 of nothing, from the algorithm's published test vectors: not some other hash.
  CHECK(sum_of({}).xxh3 == "2d06800538d394c2");
}

TEST_CASE("a text file is replaced whole") {
  const TempFolder folder;
  replace_text_file(folder.file("a"), "one");
  replace_text_file(folder.file("a"), "");
  CHECK(read_text_file(folder.file("a")).empty());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a file is replaced through its symbolic links, which stay; nothing but a file is replaced") {
  namespace fs = std::filesystem;
  const TempFolder folder, disk;
  fs::create_directory(folder.path() / "sub");
  fs::create_symlink(disk.path() / "real", folder.path() / "sub/last");
  fs::create_symlink("sub/last", folder.path() / "link");  // as a relative one it counts from where it lies
  fs::create_directory_symlink(folder.path() / "sub", disk.path() / "sub");
  for (const std::string& name :
       {folder.file("link"), disk.file("sub/last"), disk.file("sub/../link"), disk.file("real")}) {
    for (const std::string text : {"new", "old"}) {
      INFO(name);
      replace_text_file(name, text);
      CHECK(read_text_file(disk.file("real")) == text);
      CHECK(fs::is_symlink(folder.path() / "link"));
      CHECK(fs::is_symlink(folder.path() / "sub/last"));
      CHECK(fs::is_regular_file(fs::symlink_status(disk.path() / "real")));
      CHECK(!fs::exists(disk.path() / "real.tmp"));
    }
    fs::remove(disk.path() / "real");  // then the links lead to nothing
  }
  CHECK(file_to_replace("none/a") == "none/a");

  fs::create_symlink("b", folder.path() / "a");
  fs::create_symlink("a", folder.path() / "b");
  fs::create_symlink("/dev/null", folder.path() / "null");
  REQUIRE(mkfifo(folder.file("fifo").c_str(), 0600) == 0);
  for (const auto& [name, why] : {std::pair{"a", "lead in a circle"}, std::pair{"null", "a character device"},
                                  std::pair{"fifo", "a FIFO"}, std::pair{"sub", "a folder"}}) {
    const std::string path = folder.file(name);
    const std::string message = message_of([&] { replace_text_file(path, "x"); });
    CHECK(lacks(message, path + ": ") == "");
    CHECK(lacks(message, why) == "");
  }
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("files that can't be read or written are named, with the reason") {
  const TempFolder folder;
  replace_text_file(folder.file("file"), "text");
  const auto has = [](const std::string& message, const std::string& path, const std::string& reason) {
    INFO(message);
    return message.find(path) != std::string::npos && message.find(reason) != std::string::npos;
  };
  CHECK(has(message_of([&] { read_text_file(folder.file("no")); }), folder.file("no"), "No such file"));
  CHECK(has(message_of([&] { MappedFile mapped(folder.path()); }), folder.path(), "not a regular file"));
  CHECK(
      has(message_of([&] { FileWriter(folder.file("file/a")); }), folder.file("file/a"), "Not a directory"));
  CHECK(has(message_of([&] { sync_folder(folder.file("no")); }), folder.file("no"), "No such file"));
  FileWriter full("/dev/full");
  CHECK(has(message_of([&] { full.write("x", 1); }), "/dev/full", "No space left"));
}

TEST_CASE("JSON is parsed strictly") {
  const auto refusal = [](const std::string& text) {
    return message_of([&] { parse_json(text, "x.json", 2); });
  };
  CHECK(parse_json(R"({"a":[1,2],"b":{"a":1}})", "x.json", 2)["a"][1] == 2);
  CHECK(refusal(R"({"a":1,"b":{"a":1,"a":2}})") == "x.json: the key 'a' appears twice");
  CHECK(refusal(R"({"a":1,"\u0061":2})") == "x.json: the key 'a' appears twice");
  CHECK(refusal("[[[0]]]").find("nested deeper than 2") != std::string::npos);
  CHECK(refusal(std::string("1\0002", 3)).find("NUL") != std::string::npos);
  for (const std::string text : {"", "{", "1 2", "{'a':1}", "[1,]", "nan", "\"\xc3\"", "01"}) {
    INFO(text);
    CHECK(refusal(text).starts_with("x.json: not JSON: "));
  }
}
