#include "io/safetensors.h"

#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

namespace {

// A file's bytes: the header's length, the header, and as many zeros.
std::string file_with(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + std::string(data_bytes, '\0');
}

SafetensorsContent parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "x.safetensors");
}

std::string refusal(const std::string& file) {
  return message_of([&] { parse(file); });
}

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("safetensors: every type comes back with its bytes, aligned") {
  const TempFolder folder;
  const std::string path = folder.file("all.safetensors");
  std::vector<uint8_t> data(64);
  for (size_t i = 0; i < data.size(); ++i) data[i] = uint8_t(37 * i + 1);
  const std::vector<TensorView> tensors{
      {"bytes", StoredDType::u8, {5}, data.data()},
      {"half", StoredDType::bf16, {3, 1}, data.data() + 1},
      {"layers.0.weight", StoredDType::f32, {2, 3}, data.data() + 2},
      {"scalar", StoredDType::i64, {}, data.data() + 3},
      {"nothing", StoredDType::f32, {4, 0}, nullptr},
      {"count", StoredDType::u64, {2}, data.data() + 4},
      {"ids \u00e9\"\\", StoredDType::i32, {1, 1, 1}, data.data() + 5},
  };
  const FileSum sum = write_safetensors(path, tensors, {{"format", "pt"}, {"note", "line\nline"}});
  CHECK(sum == sum_of(MappedFile(path).bytes()));
  CHECK(sum.bytes == std::filesystem::file_size(path));

  const SafetensorsFile file(path);
  CHECK(file.metadata() == Metadata{{"format", "pt"}, {"note", "line\nline"}});
  REQUIRE(file.tensors().size() == tensors.size());
  for (const TensorView& t : tensors) {
    INFO(t.name);
    const TensorView* found = file.find(t.name);
    REQUIRE(found != nullptr);
    CHECK(found->dtype == t.dtype);
    CHECK(found->shape == t.shape);
    const uint64_t bytes = byte_size(t.dtype, t.shape, t.name);
    if (bytes > 0) CHECK(std::memcmp(found->data, t.data, bytes) == 0);
    CHECK(reinterpret_cast<uintptr_t>(found->data) % size_of(t.dtype) == 0);
  }
  CHECK(file.find("bytes ") == nullptr);
}

TEST_CASE("safetensors: a file is written as the format says, byte by byte") {
  const TempFolder folder;
  const std::string path = folder.file("two.safetensors");
  const float a[2] = {1.f, -2.f};
  const uint8_t b[1] = {9};
  write_safetensors(path,
                    std::vector<TensorView>{{"b", StoredDType::u8, {1}, b}, {"a", StoredDType::f32, {2}, a}});
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})";
  const size_t padding = 128 - 8 - header.size();  // the data begins at a multiple of 64
  std::string expected =
      std::string(1, char(120)) + std::string(7, '\0') + header + std::string(padding, ' ');
  expected += std::string("\0\0\x80\x3f\0\0\0\xc0\x09", 9);
  CHECK(read_bytes(path) == expected);
}

TEST_CASE("safetensors: what other writers may do is read") {
  // Any order of entries, white space, no padding, unaligned data, empty metadata.
  const auto content =
      parse(file_with("{ \"z\" : {\"shape\":[],\"data_offsets\":[3,7],\n\"dtype\":\"F32\"},\t"
                      "\"__metadata__\":{}, \"a\":{\"dtype\":\"U8\",\"shape\":[3],"
                      "\"data_offsets\":[0,3]}} ",
                      7));
  REQUIRE(content.tensors.size() == 2);
  CHECK(content.tensors[0].name == "a");
  CHECK(content.tensors[1].name == "z");
  CHECK(static_cast<const char*>(content.tensors[1].data) -
            static_cast<const char*>(content.tensors[0].data) ==
        3);
  CHECK(parse(file_with("{}", 0)).tensors.empty());
}

TEST_CASE("safetensors: a file that is not right is refused, with the tensor and the reason") {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  REQUIRE(refusal(file_with(one("\"F32\"", "[2]", "[0,8]"), 8)).empty());
  const std::string length_only(8, '\xff');
  const std::string good = file_with(one("\"F32\"", "[2]", "[0,8]"), 8);
  const struct {
    std::string file, reason;
  } cases[] = {
      {"", "0 bytes are too few"},
      {"1234567", "7 bytes are too few"},
      {length_only, "over the format's limit of 100000000"},
      {good.substr(0, 40), "the file is cut off: its header should have 54 bytes, 32 are there"},
      {good.substr(0, good.size() - 1), "tensor 'w': the file is cut off: its bytes end at 8 of 7"},
      {good + "x", "1 bytes after the last tensor belong to none"},
      {file_with(" {}", 0), "does not begin with '{'"},
      {file_with("[]", 0), "does not begin with '{'"},
      {file_with("", 0), "does not begin with '{'"},
      {file_with("{", 0), "not JSON"},
      {file_with("{}}", 0), "not JSON"},
      {file_with(std::string("{}\0{", 4), 0), "NUL byte"},
      {file_with("{\"\xff\":1}", 0), "not JSON"},
      {file_with(R"({"a":1})", 0), "tensor 'a': its entry must hold exactly"},
      {file_with(R"({"a":{"dtype":"F32","shape":[]}})", 0), "tensor 'a': its entry must hold exactly"},
      {file_with(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})", 0), "must hold exactly"},
      {file_with(R"({"a":{"dtype":"U8","shape":[[[0]]],"data_offsets":[0,0]}})", 0), "nested deeper than 3"},
      {file_with(R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0), "tensor '': not a name"},
      {file_with(R"({"a\u0000":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0),
       "tensor 'a\\x00': a control character"},
      {file_with(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                 R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                 0),
       "the key 'a' appears twice"},
      {file_with(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0),
       "the key 'dtype' appears twice"},
      {file_with(R"({"__metadata__":{"a":1}})", 0), "__metadata__ must map text to text; 'a' does not"},
      {file_with(R"({"__metadata__":null})", 0), "__metadata__ must map text to text"},
      {file_with(one("\"F16\"", "[2]", "[0,8]"), 8), "tensor 'w': dtype \"F16\" is not one of F32, BF16"},
      {file_with(one("1", "[2]", "[0,8]"), 8), "tensor 'w': dtype 1 is not one of"},
      {file_with(one("\"F32\"", "2", "[0,8]"), 8),
       "tensor 'w': shape must be a list of non-negative integers"},
      {file_with(one("\"F32\"", "[-2]", "[0,8]"), 8), "shape must be a list of non-negative integers"},
      {file_with(one("\"F32\"", "[2.0]", "[0,8]"), 8), "shape must be a list of non-negative integers"},
      {file_with(one("\"F32\"", "[true]", "[0,8]"), 8), "shape must be a list of non-negative integers"},
      {file_with(one("\"F32\"", "[9223372036854775808]", "[0,8]"), 8), "shape must be a list"},
      {file_with(one("\"F32\"", "[4611686018427387904,4]", "[0,0]"), 0),
       "a shape [4611686018427387904, 4] that no"},
      {file_with(one("\"F32\"", "[2]", "[0,8,9]"), 8), "data_offsets must be [begin, end]"},
      {file_with(one("\"F32\"", "[2]", "[8,0]"), 8), "data_offsets must be [begin, end]"},
      {file_with(one("\"F32\"", "[2]", "[0,-8]"), 8), "data_offsets must be a list of non-negative integers"},
      {file_with(one("\"F32\"", "[2]", "[0,7]"), 7),
       "dtype F32 and shape [2] are 8 bytes, but data_offsets [0, 7] are 7"},
      {file_with(one("\"F32\"", "[2]", "[4,12]"), 12), "tensor 'w': its bytes begin at 4"},
      {file_with(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                 R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                 7),
       "tensor 'b': its bytes begin at 3, but the tensor before ends at 4: they overlap"},
      {file_with(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                 R"("b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
                 9),
       "tensor 'b': its bytes begin at 5, but the tensor before ends at 4: there is a hole"},
  };
  for (const auto& c : cases) {
    const std::string message = refusal(c.file);
    INFO(c.file.substr(0, 200) << "\n" << message);
    CHECK(message.find(c.reason) != std::string::npos);
    CHECK(message.starts_with("x.safetensors: "));
  }
}

TEST_CASE("safetensors: what can't be written is refused, by name") {
  const TempFolder folder;
  const std::string path = folder.file("x.safetensors");
  const float data[4] = {};
  const auto refused = [&](const std::vector<TensorView>& tensors, const Metadata& metadata = {}) {
    return message_of([&] { write_safetensors(path, tensors, metadata); });
  };
  const auto named = [&](const std::string& name) { return TensorView{name, StoredDType::f32, {4}, data}; };
  CHECK(refused({named("")}).find("tensor '': not a name") != std::string::npos);
  CHECK(refused({named("__metadata__")}).find("not a name") != std::string::npos);
  CHECK(refused({named("a\n")}).find("a control character") != std::string::npos);
  CHECK(refused({named("\xff")}).find("not UTF-8") != std::string::npos);
  CHECK(refused({named("a"), named("b"), named("a")}).find("tensor 'a': given twice") != std::string::npos);
  CHECK(refused({named("a")}, {{"k", "\xff"}}).find("not UTF-8") != std::string::npos);
  CHECK(refused({{"a", StoredDType::f32, {-1}, data}}).find("a shape [-1] that no memory holds") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(message_of([&] { write_safetensors(folder.file("no/x"), {}); }).find("No such file") !=
        std::string::npos);
  CHECK(message_of([&] { SafetensorsFile(folder.file("no")); }).find("cannot read") != std::string::npos);
  CHECK(message_of([&] { SafetensorsFile(folder.path().string()); }).find("not a regular file") !=
        std::string::npos);
}

namespace {

// Seconds of this thread alone, whatever else the machine does.
template <class Call>
double thread_seconds(const Call& call) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  const double begin = now();
  call();
  return now() - begin;
}

}  // namespace

TEST_CASE("safetensors: the work grows with the number of names, and not with its square") {
  const TempFolder folder;
  const std::string path = folder.file("many.safetensors");
  const uint8_t byte = 7;
  const auto seconds = [&](int names) {
    std::vector<TensorView> tensors;
    for (int i = 0; i < names; ++i)
      tensors.push_back({"layers." + std::to_string(i) + ".w", StoredDType::u8, {1}, &byte});
    return thread_seconds([&] {
      write_safetensors(path, tensors);
      const SafetensorsFile file(path);
      REQUIRE(file.tensors().size() == tensors.size());
      REQUIRE(file.find(tensors.back().name) != nullptr);
    });
  };
  seconds(1000);
  const double few = seconds(3000);
  // 10 times the names are 10 times the work, perhaps 20 with caches and a tree; with a square they were over 80.
  REQUIRE(seconds(30000) < 40 * few);
  CHECK(seconds(300000) < 400 * few);
}
