#include "io/dataset.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/io/small_dataset.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;
namespace fs = std::filesystem;

namespace {

template <class T>
T number_at(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void put_at(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("a dataset comes back with its documents, at either id width") {
  const TempFolder folder;
  const int64_t vocab_size = GENERATE(100, 65536, 65537, 200000);
  write_dataset(folder.path() / "d", {4, 1, 7, 2}, 10, vocab_size);
  const TokenDataset data(folder.path() / "d");
  CHECK(all_tokens(data) == std::vector<int32_t>{10, 11, 12, 1, 1, 13, 14, 15, 16, 17, 18, 1, 19, 1});
  CHECK(data.documents() == 4);
  CHECK(data.bytes() == 30);
  CHECK(data.info().vocab_size == vocab_size);
  CHECK(data.info().tokenizer_hash == "0123456789abcdef");
  CHECK(fs::file_size(folder.file("d.bin")) == 14u * (vocab_size <= 65536 ? 2 : 4));
  const std::vector<int64_t> begins = {0, 4, 5, 12, 14};
  for (int64_t d = 0; d <= 4; ++d) CHECK(data.document_begin(d) == begins[size_t(d)]);
  for (int64_t token = 0; token < 14; ++token) {
    const int64_t d = data.document_of(token);
    CHECK((begins[size_t(d)] <= token && token < begins[size_t(d) + 1]));
  }
  std::vector<int32_t> some(3);
  data.read(5, some);
  CHECK(some == std::vector<int32_t>{13, 14, 15});
}

TEST_CASE("the largest id of a 65,536-piece vocabulary fits in 16 bits") {
  const TempFolder folder;
  write_dataset(folder.path() / "d", {2}, 65535, 65536);
  CHECK(all_tokens(TokenDataset(folder.path() / "d")) == std::vector<int32_t>{65535, 1});
}

TEST_CASE("the index is Megatron's, byte for byte") {
  const TempFolder folder;
  write_dataset(folder.path() / "d", {3, 2}, 10, 1000);
  const std::string index = read_text_file(folder.file("d.idx"));
  REQUIRE(index.size() == 9 + 8 + 1 + 8 + 8 + 2 * 4 + 2 * 8 + 3 * 8);
  CHECK(index.substr(0, 9) == std::string("MMIDIDX\0\0", 9));
  CHECK(number_at<uint64_t>(index, 9) == 1);
  CHECK(number_at<uint8_t>(index, 17) == 8);
  CHECK(number_at<uint64_t>(index, 18) == 2);
  CHECK(number_at<uint64_t>(index, 26) == 3);
  CHECK(number_at<int32_t>(index, 34) == 3);
  CHECK(number_at<int32_t>(index, 38) == 2);
  CHECK(number_at<int64_t>(index, 42) == 0);
  CHECK(number_at<int64_t>(index, 50) == 6);
  for (int64_t d : {0, 1, 2}) CHECK(number_at<int64_t>(index, 58 + 8 * size_t(d)) == d);
}

TEST_CASE("a document written in pieces is one document") {
  const TempFolder folder;
  DatasetWriter writer(folder.path() / "d", 100, kTestEod, "h");
  writer.append(std::vector<int32_t>{5, 6}, 2);
  writer.append(std::vector<int32_t>{7}, 1);
  writer.end_document();
  const DatasetInfo info = writer.finish();
  CHECK(info.documents == 1);
  CHECK(info.tokens == 4);
  CHECK(info.bytes == 3);
  CHECK(all_tokens(TokenDataset(folder.path() / "d")) == std::vector<int32_t>{5, 6, 7, 1});
}

TEST_CASE("a dataset that is not finished leaves nothing, and an old one stays") {
  const TempFolder folder;
  write_dataset(folder.path() / "d", {5});
  {
    DatasetWriter writer(folder.path() / "d", 100, kTestEod, "h");
    writer.append(std::vector<int32_t>{5, 6}, 2);
    CHECK(names_in(folder.path()).size() > 3);  // it writes, but under other names
    CHECK(all_tokens(TokenDataset(folder.path() / "d")).size() == 5);
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"d.bin", "d.idx", "d.json"});
  CHECK(all_tokens(TokenDataset(folder.path() / "d")).size() == 5);
  write_dataset(folder.path() / "d", {3, 3});  // finished, it takes the old one's place
  CHECK(all_tokens(TokenDataset(folder.path() / "d")).size() == 6);
}

TEST_CASE("a writer killed at any moment leaves no dataset that opens") {
  const TempFolder folder;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    DatasetWriter writer(folder.path() / "d", 100, kTestEod, "h");
    writer.append(std::vector<int32_t>(10000, 5), 2);
    writer.end_document();
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  CHECK(!names_in(folder.path()).empty());
  CHECK(message_of([&] { TokenDataset(folder.path() / "d"); }).find("d.json") != std::string::npos);
  write_dataset(folder.path() / "d", {3});  // what it left is in nobody's way
  CHECK(names_in(folder.path()) == std::vector<std::string>{"d.bin", "d.idx", "d.json"});
}

TEST_CASE("a dataset is written by one writer at a time, and the other one harms nothing") {
  const TempFolder folder;
  const auto prefix = folder.path() / "d";
  const auto open = [&] { DatasetWriter(prefix, 1000, kTestEod, "0123456789abcdef"); };
  {
    std::ofstream(prefix.string() + ".bin.lock.tmp") << "left by a kill";
    DatasetWriter first(prefix, 1000, kTestEod, "0123456789abcdef");
    CHECK(lacks(message_of(open), prefix.string() + ".bin: is being written by another process") == "");
    first.append(std::vector<int32_t>{10, 11, 12}, 9);
    first.end_document();
    first.finish();
    CHECK(all_tokens(TokenDataset(prefix)) == std::vector<int32_t>{10, 11, 12, kTestEod});
  }
  CHECK(message_of(open) == "");
  CHECK(all_tokens(TokenDataset(prefix)).size() == 4);
  CHECK(!std::filesystem::exists(prefix.string() + ".bin.lock.tmp"));
}

TEST_CASE(
    "a dataset is written through the links that stand under its names, by one writer whatever link is "
    "taken") {
  namespace fs = std::filesystem;
  const TempFolder folder, disk;
  for (const char* extension : {".bin", ".idx", ".json"}) {
    fs::create_symlink(disk.path() / (std::string("real") + extension), folder.file("d") + extension);
  }
  for (const int32_t token : {5, 6}) {  // the links lead to nothing, then to a dataset
    DatasetWriter writer(folder.path() / "d", 1000, kTestEod, "h");
    writer.append(std::vector<int32_t>{token}, 1);
    writer.end_document();
    CHECK(lacks(message_of([&] { DatasetWriter(disk.path() / "real", 1000, kTestEod, "h"); }),
                "is being written by another process") == "");
    writer.finish();
    CHECK(all_tokens(TokenDataset(disk.path() / "real")) == std::vector<int32_t>{token, kTestEod});
    CHECK(all_tokens(TokenDataset(folder.path() / "d")) == std::vector<int32_t>{token, kTestEod});
  }
  for (const char* extension : {".bin", ".idx", ".json"}) CHECK(fs::is_symlink(folder.file("d") + extension));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"d.bin", "d.idx", "d.json"});
  CHECK(names_in(disk.path()) == std::vector<std::string>{"real.bin", "real.idx", "real.json"});
}

TEST_CASE("a name is claimed by one at a time, whoever removes the lock's file when") {
  const TempFolder folder;
  const std::string name = folder.file("x");
  std::atomic<int> holders = 0, most = 0, had = 0;
  const auto claim_often = [&] {
    for (int i = 0; i < 500; ++i) {
      try {
        const OutputClaim claim(name);
        const int now = ++holders;
        if (now > most) most = now;
        ++had;
        --holders;
      } catch (const Error&) {
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(claim_often);
  for (std::thread& thread : threads) thread.join();
  CHECK(most == 1);
  CHECK(had > 0);
  CHECK(!std::filesystem::exists(OutputClaim::lock_file(name)));
}

TEST_CASE("an empty dataset and an unwritable folder are refused") {
  const TempFolder folder;
  DatasetWriter writer(folder.path() / "d", 100, kTestEod, "h");
  CHECK(message_of([&] { writer.finish(); }).find("no text to put into") != std::string::npos);
  const fs::path missing = folder.path() / "missing" / "d";
  CHECK(message_of([&] { DatasetWriter(missing, 100, kTestEod, "h"); }).find(missing.string()) !=
        std::string::npos);
}

TEST_CASE("every kind of damage is named with its file") {
  const TempFolder folder;
  const std::string bin = folder.file("d.bin"), idx = folder.file("d.idx"), json = folder.file("d.json");
  write_dataset(folder.path() / "d", {3, 4, 5}, 10, 1000);
  REQUIRE(message_of([&] { TokenDataset(folder.path() / "d"); }) == "");
  // Index: 3 lengths at 34, 3 pointers at 46, 4 document entries at 70.
  const auto refusal = [&](const std::string& file, const auto& damage) {
    const std::string whole = read_text_file(file);
    std::string bytes = whole;
    damage(bytes);
    std::ofstream(file, std::ios::binary) << bytes;
    const std::string message = message_of([&] { TokenDataset(folder.path() / "d"); });
    std::ofstream(file, std::ios::binary) << whole;
    CHECK(message.find(file) == 0);
    return message;
  };
  const auto index_refusal = [&](size_t at, auto value) {
    return refusal(idx, [&](std::string& b) { put_at(b, at, value); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(index_refusal(0, 'X'), "not a Megatron index"));
  CHECK(has(index_refusal(9, uint64_t(2)), "version 2"));
  CHECK(has(index_refusal(17, uint8_t(6)), "id type 6"));
  CHECK(has(index_refusal(17, uint8_t(4)), "does not begin where"));
  for (int64_t count : {int64_t(2), int64_t(-1), int64_t(1) << 61}) {
    CHECK(has(index_refusal(18, count), "cut short or damaged"));
    CHECK(has(index_refusal(26, count), "cut short or damaged"));
  }
  CHECK(has(index_refusal(34, int32_t(4)), "sequence 1 does not begin"));
  CHECK(has(index_refusal(38, int32_t(0)), "sequence 1 does not begin"));
  CHECK(has(index_refusal(42, int32_t(6)), "holds 13 tokens, the .json 12"));
  CHECK(has(index_refusal(54, int64_t(1)), "sequence 1 does not begin"));
  CHECK(has(index_refusal(70, int64_t(1)), "document 0 does not begin"));
  CHECK(has(index_refusal(78, int64_t(2)), "document 2 does not begin"));
  CHECK(has(index_refusal(86, int64_t(-5)), "document 2 does not begin"));
  CHECK(has(index_refusal(94, int64_t(4)), "document 3 does not begin"));
  CHECK(has(refusal(idx, [](std::string& b) { b.pop_back(); }), "cut short or damaged"));
  CHECK(has(refusal(idx, [](std::string& b) { b.resize(20); }), "not a Megatron index"));
  CHECK(has(refusal(idx, [](std::string& b) { b.clear(); }), "not a Megatron index"));
  CHECK(has(refusal(bin, [](std::string& b) { b.pop_back(); }), "23 bytes, expected 24"));
  CHECK(has(refusal(bin, [](std::string& b) { b += "xx"; }), "26 bytes, expected 24"));
  CHECK(has(refusal(bin, [](std::string& b) { put_at(b, 4, uint16_t(7)); }), "document 0 ends with token 7"));
  CHECK(has(refusal(bin, [](std::string& b) { put_at(b, 8, uint16_t(1000)); }),
            "token 1000 at byte 8 is outside the vocabulary of 1000"));
  const auto json_refusal = [&](const std::string& from, const std::string& to) {
    return refusal(json, [&](std::string& b) {
      const size_t at = b.find(from);
      REQUIRE(at != std::string::npos);
      b.replace(at, from.size(), to);
    });
  };
  CHECK(has(json_refusal("{", "["), "not JSON"));
  CHECK(has(json_refusal("genesis-tokens", "other"), "found \"other\""));
  CHECK(has(json_refusal("\"version\": 1", "\"version\": 2"), "version 2"));
  CHECK(has(json_refusal("\"eod\"", "\"dog\""), "eod"));
  CHECK(has(json_refusal("\"tokens\": 12", "\"tokens\": \"12\""), "does not describe"));
  CHECK(message_of([&] { TokenDataset(folder.path() / "none"); }).find(folder.file("none.json")) !=
        std::string::npos);
  for (const std::string& file : {bin, idx, json}) {
    fs::rename(file, file + ".away");
    CHECK(has(message_of([&] { TokenDataset(folder.path() / "d"); }), file));
    fs::rename(file + ".away", file);
  }
}

TEST_CASE("an id beyond a model's vocabulary is found, negative ones too") {
  const TempFolder folder;
  write_dataset(folder.path() / "d", {3, 4}, 10, 70000);
  const TokenDataset data(folder.path() / "d");
  data.check_vocabulary(15);
  CHECK(message_of([&] {
          data.check_vocabulary(14);
        }).find("token 14 at byte 20 is outside the vocabulary of 14") != std::string::npos);
  std::string ids = read_text_file(folder.file("d.bin"));
  put_at(ids, 4, int32_t(-2));
  folder.put("d.bin", ids);
  CHECK(message_of([&] { TokenDataset(folder.path() / "d"); }).find("token -2 at byte 4") !=
        std::string::npos);
}

TEST_CASE("a dataset's identity is its content, wherever it lies") {
  const TempFolder folder;
  write_dataset(folder.path() / "a", {4, 1, 7});
  const DatasetIdentity a = TokenDataset(folder.path() / "a").identity();
  CHECK(a.path == folder.file("a"));
  CHECK(a.tokens == 12);
  CHECK(a.documents == 3);
  const std::string both = read_text_file(folder.file("a.idx")) + read_text_file(folder.file("a.bin"));
  CHECK(a.hash == sum_of(std::as_bytes(std::span(both))).xxh3);
  for (const char* extension : {".bin", ".idx", ".json"}) {
    fs::copy(folder.file("a") + extension, folder.file("copy") + extension);
  }
  CHECK(same_content(TokenDataset(folder.path() / "copy").identity(), a));
  write_dataset(folder.path() / "other ids", {4, 1, 7}, 11);
  CHECK_FALSE(same_content(TokenDataset(folder.path() / "other ids").identity(), a));
  write_dataset(folder.path() / "other lengths", {5, 1, 6});
  CHECK_FALSE(same_content(TokenDataset(folder.path() / "other lengths").identity(), a));
}

TEST_CASE("the content hash of many tokens is of the index and of blocks spread over them") {
  constexpr size_t kBlock = 65536, kAll = 1024 * kBlock;
  const std::vector<std::byte> index(100, std::byte{7});
  std::vector<std::byte> tokens(kAll + 5 * kBlock + 3);
  for (size_t i = 0; i < tokens.size(); i += 4099) tokens[i] = std::byte(i % 251);
  const auto sum = [&](size_t size) {
    std::vector<std::byte> hashed = index;
    for (size_t i = 0; i < (size <= kAll ? 1 : 1024); ++i) {
      const size_t begin = size <= kAll ? 0 : i * (size - kBlock) / 1023;
      hashed.insert(hashed.end(), tokens.begin() + std::ptrdiff_t(begin),
                    tokens.begin() + std::ptrdiff_t(begin + std::min(size, size <= kAll ? size : kBlock)));
    }
    return sum_of(hashed).xxh3;
  };
  for (const size_t size : {size_t(0), kBlock, kAll, kAll + 1, tokens.size()}) {
    CHECK(content_hash(index, std::span(tokens).first(size)) == sum(size));
  }
  const std::string before = content_hash(index, tokens);
  tokens.back() = std::byte(~uint8_t(tokens.back()));
  CHECK(content_hash(index, tokens) != before);
}
