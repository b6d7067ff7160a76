#include "io/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

#include "io/format.h"

namespace genesis {
namespace {

constexpr double kRedrawSeconds = 0.1, kLineSeconds = 5.0;
// To the line's start, and erase to its end (ECMA-48, EL).
constexpr std::string_view kErase = "\r\x1b[K";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Terminal terminal_of(std::ostream& out, int descriptor) {
  const char* kind = std::getenv("TERM");
  const bool can_erase = kind != nullptr && std::string_view(kind) != "dumb";
  return {.out = &out,
          .interactive = can_erase && isatty(descriptor) == 1,
          .columns =
              [descriptor] {
                winsize size{};
                return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? int{size.ws_col} : 80;
              },
          .seconds = steady_seconds};
}

// "[=====>    ]", `width` characters in all.
std::string bar(double fraction, int width) {
  const int inside = width - 2;
  const int filled = std::clamp(static_cast<int>(fraction * inside), 0, inside);
  std::string text(static_cast<size_t>(inside), ' ');
  std::fill_n(text.begin(), filled, '=');
  if (filled > 0 && filled < inside) text[static_cast<size_t>(filled - 1)] = '>';
  return "[" + text + "]";
}

}  // namespace

Terminal Terminal::standard_output() { return terminal_of(std::cout, STDOUT_FILENO); }
Terminal Terminal::standard_error() { return terminal_of(std::cerr, STDERR_FILENO); }

ProgressBar::ProgressBar(Options options, Terminal terminal)
    : options_(std::move(options)),
      terminal_(std::move(terminal)),
      started_(terminal_.seconds()),
      done_(options_.start),
      last_shown_(started_) {}

ProgressBar::~ProgressBar() {
  if (on_screen_) erase();
}

void ProgressBar::advance(int64_t count) {
  done_ += count;
  const std::unique_lock lock(drawing_, std::try_to_lock);
  if (lock.owns_lock() && !finished_) show(false);
}

void ProgressBar::set_pace(double seconds) {
  const std::lock_guard lock(drawing_);
  pace_ = seconds;
}

void ProgressBar::hide() {
  const std::lock_guard lock(drawing_);
  if (on_screen_) erase();
}

void ProgressBar::print_line(const std::string& line) {
  const std::lock_guard lock(drawing_);
  if (on_screen_) erase();
  *terminal_.out << line << '\n';
  if (terminal_.interactive && !finished_) show(true);
  terminal_.out->flush();
}

void ProgressBar::finish() {
  const std::lock_guard lock(drawing_);
  if (finished_) return;
  finished_ = true;
  if (on_screen_) erase();
  if (!options_.plain_lines) return;
  const double seconds = terminal_.seconds() - started_;
  *terminal_.out << options_.label << ": " << amount(done_) << " in " << format_duration(seconds) << ", "
                 << rate(seconds) << std::endl;
}

std::string ProgressBar::number(double count) const {
  return options_.unit == Unit::bytes ? format_bytes(count) : format_count(count);
}

std::string ProgressBar::amount(int64_t count) const {
  return number(static_cast<double>(count)) + (options_.noun.empty() ? "" : " " + options_.noun);
}

std::string ProgressBar::rate(double seconds) const {
  return number(static_cast<double>(done_ - options_.start) / std::max(seconds, 1e-9)) + "/s";
}

std::string ProgressBar::time_left(double seconds) const {
  const auto done = static_cast<double>(done_ - options_.start);
  const double left = std::max(static_cast<double>(options_.total - done_), 0.0);
  if (pace_ > 0) return format_duration(left * pace_);
  return done > 0 ? format_duration(left * seconds / done) : "?";
}

// Draws the bar or writes a plain line, if `now` or the last one is long enough ago.
void ProgressBar::show(bool now) {
  const double time = terminal_.seconds();
  const bool lines = !terminal_.interactive;
  if (lines && !options_.plain_lines) return;
  if (!now && time - last_shown_ < (lines ? kLineSeconds : kRedrawSeconds)) return;
  last_shown_ = time;

  const double seconds = time - started_;
  const bool known = options_.total > 0;
  const double fraction = known ? static_cast<double>(done_) / static_cast<double>(options_.total) : 0.0;
  const std::string percent = known ? fmt::format("{:3.0f}%", std::min(100.0 * fraction, 100.0)) : "";
  std::string details =
      known ? number(static_cast<double>(done_)) + " of " + amount(options_.total) : amount(done_);
  details += ", " + rate(seconds);
  if (known) details += ", " + time_left(seconds) + " left";

  if (lines) {
    *terminal_.out << options_.label << ": " << (known ? percent + ", " : "") << details << std::endl;
    return;
  }
  const int room = terminal_.columns() - 1;
  const int text = static_cast<int>(options_.label.size() + percent.size() + details.size()) + 3;
  std::string line = options_.label + " ";
  if (known) line += percent + " ";
  constexpr int kNarrowest = 8, kWidest = 42;
  if (known && room - text >= kNarrowest) line += bar(fraction, std::min(room - text, kWidest)) + " ";
  line += details;
  line.resize(std::min(line.size(), static_cast<size_t>(std::max(room, 0))));
  *terminal_.out << kErase << line << std::flush;
  on_screen_ = true;
}

void ProgressBar::erase() {
  *terminal_.out << kErase << std::flush;
  on_screen_ = false;
}

}  // namespace genesis
