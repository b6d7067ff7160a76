#include "io/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "kernels/common/error.h"

namespace genesis {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  constexpr uint32_t kCastagnoliReflected = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kCastagnoliReflected : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

// Protobuf's wire format: a field is its number and wire type, then its value.
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class Unsigned>
void put_little_endian(std::string& out, Unsigned value) {
  for (size_t i = 0; i < sizeof(value); ++i) out += static_cast<char>(value >> (8 * i));
}

void put_key(std::string& out, uint64_t number, WireType type) { put_varint(out, number << 3 | type); }

void put_integer(std::string& out, uint64_t number, int64_t value) {
  put_key(out, number, kVarint);
  put_varint(out, static_cast<uint64_t>(value));
}

void put_double(std::string& out, uint64_t number, double value) {
  put_key(out, number, kFixed64);
  put_little_endian(out, std::bit_cast<uint64_t>(value));
}

void put_float(std::string& out, uint64_t number, float value) {
  put_key(out, number, kFixed32);
  put_little_endian(out, std::bit_cast<uint32_t>(value));
}

void put_bytes(std::string& out, uint64_t number, std::string_view bytes) {
  put_key(out, number, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Field numbers of event.proto and summary.proto.
constexpr uint64_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5,
                   kEventSessionLog = 7;
constexpr uint64_t kSummaryValue = 1, kValueTag = 1, kValueSimpleValue = 2;
constexpr uint64_t kSessionLogStatus = 1;
constexpr int64_t kSessionStart = 1;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string new_event(int64_t step) {
  std::string event;
  put_double(event, kEventWallTime, wall_time());
  put_integer(event, kEventStep, step);
  return event;
}

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr size_t kDigits = 10;  // of seconds since 1970

// The time in an event file's name; none if it is not of the usual form.
std::optional<int64_t> time_in(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view time = name.substr(kPrefix.size(), kDigits);
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), seconds);
  if (error != std::errc() || time.size() != kDigits || end != time.data() + kDigits) return std::nullopt;
  return seconds;
}

// TensorBoard takes the files of a folder in the order of their names, and never goes back to an earlier one. So
// the time in a new name is later than in all that are there: a second run within a second, or after the clock was
// set back, says a second more than the newest file.
std::string new_file_name(const std::string& folder) {
  auto time = static_cast<int64_t>(wall_time());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    time = std::max(time, time_in(entry.path().filename().string()).value_or(0) + 1);
  }
  check(!error, fmt::format("{}: cannot read the folder: {}", folder, error.message()));
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
  return fmt::format("{}/{}{:010d}.{}.{}", folder, kPrefix, time, host.data(), getpid());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const unsigned char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ byte) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

EventFile::EventFile(const std::string& folder, int64_t done_steps) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check(!error, fmt::format("{}: cannot make the folder: {}", folder, error.message()));
  path_ = new_file_name(folder);
  file_.open(path_, std::ios::binary);
  check(file_.is_open(), fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));

  std::string version = new_event(0);
  put_bytes(version, kEventFileVersion, "brain.Event:2");
  write_record(version);
  std::string start_status, start = new_event(done_steps + 1);
  put_integer(start_status, kSessionLogStatus, kSessionStart);
  put_bytes(start, kEventSessionLog, start_status);
  write_record(start);
}

void EventFile::write(int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, kValueTag, scalar.tag);
    put_float(value, kValueSimpleValue, static_cast<float>(scalar.value));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string event = new_event(step);
  put_bytes(event, kEventSummary, summary);
  write_record(event);
}

void EventFile::write_record(const std::string& event) {
  std::string record;
  put_little_endian(record, uint64_t{event.size()});
  put_little_endian(record, masked_crc32c(record));
  record += event;
  put_little_endian(record, masked_crc32c(event));
  file_ << record << std::flush;
  check(file_.good(), fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
}

}  // namespace genesis
