#include "io/run_metrics.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/common/error.h"

namespace genesis {
namespace {

using Json = nlohmann::json;

// The file has null for a number that is not finite.
double number_at(const Json& record, const char* key) {
  const Json& value = record.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

template <class T>
std::optional<T> maybe_at(const Json& record, const char* key) {
  const auto it = record.find(key);
  if (it == record.end() || it->is_null()) return std::nullopt;
  return it->get<T>();
}

StepRecord step_of(const Json& record) {
  StepRecord r;
  r.step = record.at("step").get<int64_t>();
  r.loss = number_at(record, "loss");
  r.grad_norm = number_at(record, "grad_norm");
  r.lr = number_at(record, "lr");
  r.tokens_per_second = number_at(record, "tokens_per_second");
  r.mfu = maybe_at<double>(record, "mfu");
  r.memory_bytes = record.value("memory_bytes", int64_t(0));
  r.tokens = record.at("tokens").get<int64_t>();
  r.skipped = record.value("skipped", false);
  return r;
}

EvalRecord eval_of(const Json& record) {
  return {record.at("step").get<int64_t>(), maybe_at<int64_t>(record, "recurrence"),
          number_at(record, "loss"), maybe_at<double>(record, "bits_per_byte")};
}

// `bytes` of a file from `begin` on; fewer where it ends before.
std::string read_part(std::ifstream& file, int64_t begin, int64_t bytes) {
  std::string text(size_t(bytes), '\0');
  file.clear();
  file.seekg(begin);
  file.read(text.data(), bytes);
  text.resize(size_t(file.gcount()));
  return text;
}

}  // namespace

bool MetricsReader::update() {
  std::error_code error;
  const bool there = std::filesystem::exists(path_, error);
  check(!error, fmt::format("cannot read {}: {}", path_, error.message()));
  std::ifstream file;
  int64_t size = 0;
  if (there) {
    file.open(path_, std::ios::binary);
    check(file.is_open(), fmt::format("cannot read {}: {}", path_, std::strerror(errno)));
    size = int64_t(std::filesystem::file_size(path_, error));
    check(!error, fmt::format("cannot read {}: {}", path_, error.message()));
  }

  const int64_t kept = int64_t(last_line_.size());
  const bool same = size >= read_ && (kept == 0 || read_part(file, read_ - kept, kept) == last_line_);
  if (!same) *this = MetricsReader(path_);
  if (size == read_) return !same;

  const std::string text = read_part(file, read_, size - read_);
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ++lines_;
    add(std::string_view(text).substr(begin, end - begin));
    last_line_.assign(text, begin, end + 1 - begin);
  }
  read_ += int64_t(begin);
  return begin > 0 || !same;
}

void MetricsReader::add(std::string_view line) {
  std::string reason;
  try {
    const Json record = Json::parse(line);
    const std::string kind = record.at("kind").get<std::string>();
    if (kind == "step") metrics_.steps.push_back(step_of(record));
    if (kind == "eval") metrics_.evaluations.push_back(eval_of(record));
    return;  // a kind that is not known is of a later version
  } catch (const Json::exception& error) {
    reason = error.what();
  }
  if (metrics_.passed_over++ == 0)
    metrics_.first_passed_over = fmt::format("{}:{}: {}", path_, lines_, reason);
}

}  // namespace genesis
