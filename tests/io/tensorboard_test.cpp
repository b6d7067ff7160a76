#include "io/tensorboard.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "io/file.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

using namespace genesis;

namespace {

namespace fs = std::filesystem;

// Reads protobuf's wire format by its own description, to stand against the writer.
struct Message {
  std::map<uint64_t, std::vector<std::string>> fields;  // raw bytes; a varint as 8 bytes

  explicit Message(const std::string& bytes) {
    size_t at = 0;
    const auto varint = [&] {
      uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(bytes.at(at++));
        value |= uint64_t{byte & 0x7fu} << shift;
        if (byte < 0x80) return value;
      }
    };
    while (at < bytes.size()) {
      const uint64_t key = varint();
      size_t length = 0;
      std::string value;
      switch (key & 7) {
        case 0: {
          const uint64_t number = varint();
          value.assign(reinterpret_cast<const char*>(&number), sizeof(number));
          break;
        }
        case 1:
          length = 8;
          break;
        case 2:
          length = varint();
          break;
        case 5:
          length = 4;
          break;
        default:
          FAIL("wire type " << (key & 7));
      }
      if (length > 0) value = bytes.substr(at, length);
      REQUIRE(value.size() >= length);
      at += length;
      fields[key >> 3].push_back(value);
    }
  }

  template <class T>
  T number(uint64_t field) const {
    T value;
    REQUIRE(fields.at(field).size() == 1);
    REQUIRE(fields.at(field)[0].size() == sizeof(value));
    std::memcpy(&value, fields.at(field)[0].data(), sizeof(value));
    return value;
  }
};

std::vector<Message> events_in(const fs::path& path) {
  const std::string bytes = read_text_file(path);
  std::vector<Message> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length;
    uint32_t length_crc, data_crc;
    REQUIRE(at + 12 <= bytes.size());
    std::memcpy(&length, &bytes[at], 8);
    std::memcpy(&length_crc, &bytes[at + 8], 4);
    CHECK(length_crc == masked_crc32c(bytes.substr(at, 8)));
    REQUIRE(at + 16 + length <= bytes.size());
    const std::string data = bytes.substr(at + 12, length);
    std::memcpy(&data_crc, &bytes[at + 12 + length], 4);
    CHECK(data_crc == masked_crc32c(data));
    events.emplace_back(data);
    at += 16 + length;
  }
  return events;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files(fs::directory_iterator(folder), fs::directory_iterator{});
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("crc32c gives the published values") {
  // RFC 3720, B.4, whose bytes are in the order that they are sent in.
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string up, down;
  for (char i = 0; i < 32; ++i) {
    up += i;
    down += static_cast<char>(31 - i);
  }
  CHECK(crc32c(up) == 0x46dd794e);
  CHECK(crc32c(down) == 0x113fdb5c);
  CHECK(crc32c("123456789") == 0xe3069283);  // the check value of the CRC catalogues
  CHECK(crc32c("") == 0);
}

TEST_CASE("an event file holds what was written") {
  const TempFolder folder;
  EventFile file(folder.path(), 40);
  const std::vector<Scalar> scalars{{"train/loss", 2.5},
                                    {"train/grad_norm", std::numeric_limits<double>::quiet_NaN()},
                                    {std::string(200, 'x'), -1e-3}};
  file.write(41, scalars);
  file.write(int64_t{1} << 40, {});

  const std::vector<fs::path> files = files_in(folder.path());
  REQUIRE(files.size() == 1);
  CHECK(files[0].filename().string().starts_with("events.out.tfevents."));
  const auto events = events_in(files[0]);
  REQUIRE(events.size() == 4);
  CHECK(events[0].fields.at(3) == std::vector<std::string>{"brain.Event:2"});
  CHECK(events[0].number<double>(1) > 1.6e9);  // seconds since 1970

  CHECK(events[1].number<int64_t>(2) == 41);  // TensorBoard drops what earlier files say from here on
  CHECK(Message(events[1].fields.at(7).at(0)).number<int64_t>(1) == 1);

  CHECK(events[2].number<int64_t>(2) == 41);
  const Message summary(events[2].fields.at(5).at(0));
  REQUIRE(summary.fields.at(1).size() == 3);
  const Message loss(summary.fields.at(1)[0]), norm(summary.fields.at(1)[1]), other(summary.fields.at(1)[2]);
  CHECK(loss.fields.at(1).at(0) == "train/loss");
  CHECK(loss.number<float>(2) == 2.5f);
  CHECK(std::isnan(norm.number<float>(2)));
  CHECK(other.fields.at(1).at(0) == std::string(200, 'x'));
  CHECK(other.number<float>(2) == -1e-3f);

  CHECK(events[3].number<int64_t>(2) == int64_t{1} << 40);
}

TEST_CASE("event files sort by name in the order in which they were begun, whatever the clock says") {
  const TempFolder folder;
  // What other writers left: one of this very second, and one of a clock that was ahead; and files of other kinds.
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  std::vector<std::string> ordered;
  for (const int64_t time : {int64_t{1234567890}, now, now + 3600}) {
    ordered.push_back("events.out.tfevents." + std::to_string(time) + ".zeta.99999.9");
    folder.put(ordered.back(), "");
  }
  for (const char* other : {"notes", "events.out.tfevents.soon", "events.out.tfevents."})
    folder.put(other, "");

  // Each begins after the step before; a process of its own would have any id.
  for (int64_t step = 0; step < 20; ++step) {
    EventFile(folder.path(), step).write(step + 1, std::vector<Scalar>{{"train/loss", 1.0}});
    // The one that was not there before: known by the step that it begins after.
    for (const fs::path& file : files_in(folder.path())) {
      const std::string name = file.filename().string();
      if (fs::file_size(file) == 0 || std::count(ordered.begin(), ordered.end(), name) != 0) continue;
      ordered.push_back(name);
    }
    REQUIRE(ordered.size() == size_t(step) + 4);
    CHECK(std::is_sorted(ordered.begin(), ordered.end()));
  }
  // As TensorBoard reads: file after file by name, each saying from which step on the ones before are void.
  std::vector<int64_t> steps;
  for (const fs::path& file : files_in(folder.path())) {
    if (fs::file_size(file) == 0) continue;
    const auto events = events_in(file);
    const auto begin = events.at(1).number<int64_t>(2);
    std::erase_if(steps, [&](int64_t step) { return step >= begin; });
    steps.push_back(events.at(2).number<int64_t>(2));
  }
  CHECK(steps.size() == 20);
  CHECK(std::is_sorted(steps.begin(), steps.end()));
}

TEST_CASE("an event file that cannot be made is an error that names it") {
  const TempFolder folder;
  std::ofstream(folder.file("taken")) << "a file where the folder should be";
  CHECK(message_of([&] { EventFile(folder.file("taken"), 0); }).find(folder.file("taken")) == 0);
}
