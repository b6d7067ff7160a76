#include "io/metrics_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/file.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestRecord = size_t(1) << 20;  // bytes

// Why a line is no record; empty: it is one, and `record` is it.
std::string why_damaged(std::string_view line, nlohmann::json& record) {
  if (line.size() > kLongestRecord) return fmt::format("{} bytes long", line.size());
  try {
    record = parse_json(line, "", 3);
  } catch (const Error& error) {
    return std::string(error.what()).substr(2);  // after ": "
  }
  const bool has_step = record.is_object() && record.contains("step") && record["step"].is_number_integer();
  return has_step ? "" : "not a record with a step";
}

// What of a file is to stay.
struct Kept {
  std::vector<std::string_view> pieces;  // whole lines, in order; one for a file without damage
  std::vector<std::string> damaged;      // "PATH:LINE: why"
  std::vector<std::optional<int64_t>> evaluated;

  size_t bytes() const {
    size_t sum = 0;
    for (const std::string_view piece : pieces) sum += piece.size();
    return sum;
  }
};

Kept kept_of(std::string_view text, const std::string& path, int64_t done_steps) {
  Kept kept;
  size_t begin = 0, piece = 0;
  const auto end_piece = [&] {
    if (begin > piece) kept.pieces.push_back(text.substr(piece, begin - piece));
  };
  int64_t number = 1;
  for (size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1, ++number) {
    nlohmann::json record;
    const std::string why = why_damaged(text.substr(begin, end - begin), record);
    if (!why.empty()) {
      kept.damaged.push_back(fmt::format("{}:{}: {}", path, number, why));
      end_piece();
      piece = end + 1;
      continue;
    }
    const auto step = record["step"].get<int64_t>();
    if (step > done_steps) break;
    if (step == done_steps && record.value("kind", nlohmann::json()) == "eval") {
      const auto recurrence = record.find("recurrence");
      const bool given = recurrence != record.end() && recurrence->is_number_integer();
      kept.evaluated.push_back(given ? std::optional(recurrence->get<int64_t>()) : std::nullopt);
    }
  }
  end_piece();
  return kept;
}

// A second name of a file, or a copy where the file system has no second names.
std::string put_aside(const std::string& path) {
  std::error_code error;
  for (int number = 1;; ++number) {
    const std::string aside = path + (number == 1 ? ".damaged" : fmt::format(".damaged.{}", number));
    fs::create_hard_link(path, aside, error);
    if (error == std::errc::file_exists) continue;
    if (error) fs::copy_file(path, aside, error);
    if (error == std::errc::file_exists) continue;
    check(!error, fmt::format("{}: cannot write a copy of {}: {}", aside, path, error.message()));
    return aside;
  }
}

void rewrite(const std::string& path, const Kept& kept) {
  const std::string file = file_to_replace(path), temporary = file + ".tmp";
  FileWriter writer(temporary);
  for (const std::string_view piece : kept.pieces) writer.write(piece.data(), piece.size());
  writer.finish();
  std::error_code error;
  fs::rename(temporary, file, error);
  check(!error, fmt::format("cannot replace {}: {}", path, error.message()));
}

}  // namespace

MetricsFile::MetricsFile(std::string path, int64_t done_steps,
                         const std::function<void(const std::string&)>& say)
    : path_(std::move(path)) {
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  if (fs::exists(status)) {
    check(fs::is_regular_file(status), path_ + ": not a regular file; move it away to go on");
    const MappedFile file(path_);
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    Kept kept = kept_of(text, path_, done_steps);
    if (!kept.damaged.empty()) {
      const std::string aside = put_aside(path_);
      constexpr size_t kMostNamed = 10;
      for (size_t i = 0; i < kept.damaged.size() && i < kMostNamed; ++i) say("dropping " + kept.damaged[i]);
      if (kept.damaged.size() > kMostNamed) {
        say(fmt::format("dropping {} more lines of it", kept.damaged.size() - kMostNamed));
      }
      say(fmt::format("{} is the file as it was", aside));
      rewrite(path_, kept);
    } else if (kept.bytes() < text.size()) {
      fs::resize_file(path_, kept.bytes(), error);
      check(!error, fmt::format("{}: cannot write: {}", path_, error.message()));
    }
    evaluated_ = std::move(kept.evaluated);
  }
  errno = 0;
  file_.open(path_, std::ios::binary | std::ios::app);
  check(file_.is_open(), fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
}

void MetricsFile::write(const nlohmann::ordered_json& record) {
  errno = 0;
  file_ << record.dump() << '\n' << std::flush;
  check(file_.good(), fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
}

}  // namespace genesis
