#include "io/console_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "io/format.h"

namespace genesis {
namespace {

constexpr int kLinesPerHeader = 40;

struct Column {
  const char* title;
  size_t width;
  int rank;  // 0 matters most
  std::string (*text)(const StepRecord&);
};

using Record = const StepRecord&;
const std::array<Column, 8> kColumns{{
    {"step", 9, 0, [](Record r) { return std::to_string(r.step); }},
    {"loss", 9, 1, [](Record r) { return fmt::format("{:.4f}", r.loss); }},
    {"grad norm", 9, 5, [](Record r) { return fmt::format("{:.4f}", r.grad_norm); }},
    {"lr", 9, 4, [](Record r) { return fmt::format("{:.2e}", r.lr); }},
    {"tokens/s", 9, 3, [](Record r) { return format_count(r.tokens_per_second); }},
    {"MFU", 6, 7, [](Record r) { return r.mfu ? fmt::format("{:.1f}%", 100.0 * *r.mfu) : "-"; }},
    {"memory", 9, 6, [](Record r) { return format_bytes(static_cast<double>(r.memory_bytes)); }},
    {"left", 8, 2, [](Record r) { return format_duration(r.eta_seconds); }},
}};

// The columns that fit, in order.
std::vector<size_t> fitting(int columns) {
  const auto fits = [&](int most_rank) {
    size_t width = 0;
    for (const Column& c : kColumns) width += c.rank <= most_rank ? c.width + 1 : 0;
    return columns == 0 || width - 1 <= static_cast<size_t>(columns);
  };
  int rank = int(kColumns.size()) - 1;
  while (rank > 1 && !fits(rank)) --rank;
  std::vector<size_t> shown;
  for (size_t i = 0; i < kColumns.size(); ++i) {
    if (kColumns[i].rank <= rank) shown.push_back(i);
  }
  return shown;
}

std::string row(const std::vector<size_t>& shown, const std::function<std::string(const Column&)>& text) {
  std::string line;
  for (const size_t i : shown) {
    line += fmt::format("{}{:>{}}", line.empty() ? "" : " ", text(kColumns[i]), kColumns[i].width);
  }
  return line;
}

// Words that follow one another on a line where they fit, and on further lines where they don't.
std::vector<std::string> wrapped(const std::vector<std::string>& words, int columns) {
  constexpr size_t kIndent = 2;
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    const bool fits = !lines.empty() &&
                      (columns == 0 || lines.back().size() + 1 + word.size() <= static_cast<size_t>(columns));
    if (fits) {
      lines.back() += " " + word;
    } else {
      lines.push_back(std::string(lines.empty() ? 0 : kIndent, ' ') + word);
    }
  }
  return lines;
}

}  // namespace

std::vector<std::string> ConsoleTable::lines(const StepRecord& record, int columns) {
  std::vector<std::string> all;
  std::vector<size_t> shown = fitting(columns);
  if (to_header_ == 0 || shown != shown_) {
    shown_ = std::move(shown);
    to_header_ = kLinesPerHeader;
    all.push_back(row(shown_, [](const Column& c) { return c.title; }));
  }
  --to_header_;
  std::vector<std::string> parts{row(shown_, [&](const Column& c) { return c.text(record); })};
  if (record.skipped) parts.push_back(" skipped: not finite");
  for (std::string& line : wrapped(parts, columns)) all.push_back(std::move(line));
  return all;
}

std::vector<std::string> ConsoleTable::lines(const EvalRecord& record, int columns) {
  std::vector<std::string> words{fmt::format("{:>9} {:>9.4f}", record.step, record.loss)};
  std::string validation = "validation";
  if (record.recurrence) {
    words.push_back(validation + ",");
    validation = fmt::format("{} recurrent steps", *record.recurrence);
  }
  words.push_back(validation + (record.bits_per_byte ? ":" : ""));
  if (record.bits_per_byte) words.push_back(fmt::format("{:.4f} bits per byte", *record.bits_per_byte));
  return wrapped(words, columns);
}

std::vector<std::string> ConsoleTable::lines(const std::string& message, int columns) {
  if (columns == 0 || message.size() <= static_cast<size_t>(columns)) return {message};
  std::vector<std::string> words{""};
  for (const char c : message) {
    if (c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return wrapped(words, columns);
}

}  // namespace genesis
