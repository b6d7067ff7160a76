// A progress bar where someone is watching, a plain line every few seconds where nobody is.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <ostream>
#include <string>

namespace genesis {

// Where progress is shown.
struct Terminal {
  std::ostream* out = nullptr;
  bool interactive = false;         // can redraw its last line
  std::function<int()> columns;     // width, asked at every redraw
  std::function<double()> seconds;  // a clock that only goes forward

  static Terminal standard_output();
  static Terminal standard_error();
};

class ProgressBar {
 public:
  enum class Unit { items, bytes };

  struct Options {
    std::string label = {};  // "encode"
    int64_t total = 0;       // 0: not known
    Unit unit = Unit::items;
    std::string noun = {};    // "documents": what items are; may be empty
    int64_t start = 0;        // done before this run: not part of the rate
    bool plain_lines = true;  // without a terminal: a line every few seconds
  };

  ProgressBar(Options options, Terminal terminal);
  ~ProgressBar();  // takes an unfinished bar off the screen
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // From any thread; draws at most every tenth of a second.
  void advance(int64_t count);
  // What an item is known to take by now, in seconds: for the time left, instead of the mean so far.
  void set_pace(double seconds);
  // Takes the bar off the screen until it is drawn again.
  void hide();
  // A line of its own, above the bar.
  void print_line(const std::string& line);
  // Takes the bar off the screen and, unless `plain_lines` is false, leaves one line with the totals.
  void finish();

 private:
  void show(bool now);
  void erase();
  std::string number(double count) const;
  std::string amount(int64_t count) const;
  std::string rate(double seconds) const;
  std::string time_left(double seconds) const;

  const Options options_;
  const Terminal terminal_;
  const double started_;
  std::atomic<int64_t> done_;
  std::mutex drawing_;
  double last_shown_ = 0.0;
  double pace_ = 0.0;  // 0: the mean so far
  bool on_screen_ = false;
  bool finished_ = false;
};

}  // namespace genesis
