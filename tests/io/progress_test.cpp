#include "io/progress.h"

#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "io/format.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

// A terminal of 80 columns on a string, with a clock that the test moves.
struct Screen {
  std::ostringstream out;
  double now = 100.0;
  int width = 80;
  Terminal terminal(bool interactive) {
    return {&out, interactive, [this] { return width; }, [this] { return now; }};
  }
  std::string take() {
    std::string text = out.str();
    out.str("");
    return text;
  }
};

const std::string kErase = "\r\x1b[K";

}  // namespace

TEST_CASE("bytes, counts and durations are written for people") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(1024.0 * 1024 - 1) == "1.00 MiB");
  CHECK(format_bytes(23.06 * 1024 * 1024 * 1024) == "23.1 GiB");
  CHECK(format_bytes(-2048) == "-2.00 KiB");
  CHECK(format_count(7) == "7");
  CHECK(format_count(0.25) == "0.25");
  CHECK(format_count(999) == "999");
  CHECK(format_count(999.7) == "1.00k");
  CHECK(format_count(9996) == "10.0k");
  CHECK(format_count(524288) == "524k");
  CHECK(format_count(999999) == "1.00M");
  CHECK(format_count(1002522624) == "1.00B");
  CHECK(format_count(std::numeric_limits<double>::infinity()) == "?");
  CHECK(format_duration(0.4) == "0s");
  CHECK(format_duration(59.6) == "1m 00s");
  CHECK(format_duration(125) == "2m 05s");
  CHECK(format_duration(3 * 3600 + 240) == "3h 04m");
  CHECK(format_duration(55 * 3600) == "2d 07h");
  CHECK(format_duration(-1) == "?");
  CHECK(format_duration(std::numeric_limits<double>::quiet_NaN()) == "?");
}

TEST_CASE("an interactive bar redraws one line, ten times a second at most") {
  Screen screen;
  ProgressBar bar({.label = "encode", .total = 200, .noun = "documents"}, screen.terminal(true));
  bar.advance(10);
  CHECK(screen.take().empty());  // too soon
  screen.now += 10.0;
  bar.advance(40);
  const std::string drawn = screen.take();
  CHECK(drawn == kErase + "encode  25% [======>                       ] 50 of 200 documents, 5/s, 30s left");
  CHECK(drawn.size() - kErase.size() == 79);  // one column is left free: a full last column wraps
  screen.now += 0.05;
  bar.advance(1);
  CHECK(screen.take().empty());
  screen.now += 0.06;
  bar.advance(49);
  CHECK(screen.take().find(" 50% [") != std::string::npos);
  bar.print_line("a message");
  CHECK(screen.take().find(kErase + "a message\n" + kErase + "encode  50%") == 0);
  bar.finish();
  CHECK(screen.take() == kErase + "encode: 100 documents in 10s, 9.89/s\n");
  bar.finish();
  screen.now += 9.0;
  bar.advance(1);
  CHECK(screen.take().empty());
}

TEST_CASE("a bar fits a narrow terminal") {
  Screen screen;
  screen.width = 20;
  ProgressBar bar({.label = "encode", .total = 200}, screen.terminal(true));
  screen.now += 1.0;
  bar.advance(100);
  CHECK(screen.take() == kErase + "encode  50% 100 of ");
  screen.width = 0;
  screen.now += 1.0;
  bar.advance(100);
  CHECK(screen.take() == kErase);
}

TEST_CASE("an unfinished bar leaves the screen with its object") {
  Screen screen;
  {
    ProgressBar bar({.label = "encode", .total = 2}, screen.terminal(true));
    screen.now += 1.0;
    bar.advance(1);
    screen.take();
  }
  CHECK(screen.take() == kErase);
}

TEST_CASE("without a terminal there is a plain line every few seconds and no control character") {
  Screen screen;
  ProgressBar bar({.label = "encode", .total = 1 << 20, .unit = ProgressBar::Unit::bytes, .start = 1 << 18},
                  screen.terminal(false));
  screen.now += 4.9;
  bar.advance(1 << 10);
  CHECK(screen.take().empty());
  screen.now += 3.1;
  bar.advance((1 << 18) - (1 << 10));
  CHECK(screen.take() == "encode:  50%, 512 KiB of 1.00 MiB, 32.0 KiB/s, 16s left\n");
  bar.print_line("a message");
  CHECK(screen.take() == "a message\n");
  bar.finish();
  CHECK(screen.take() == "encode: 512 KiB in 8s, 32.0 KiB/s\n");
}

TEST_CASE("a bar without a total shows what is done") {
  Screen screen;
  ProgressBar bar({.label = "read"}, screen.terminal(true));
  screen.now += 2.0;
  bar.advance(3000);
  CHECK(screen.take() == kErase + "read 3.00k, 1.50k/s");
}

TEST_CASE("a bar can be hidden for a while, and be told the pace that counts by now") {
  Screen screen;
  ProgressBar bar({.label = "train", .total = 100}, screen.terminal(true));
  screen.now += 50.0;  // a slow start
  bar.advance(10);
  CHECK(screen.take().find("7m 30s left") != std::string::npos);
  bar.set_pace(0.5);
  screen.now += 1.0;
  bar.advance(10);
  CHECK(screen.take().find("40s left") != std::string::npos);
  bar.hide();
  CHECK(screen.take() == kErase);
  bar.hide();
  CHECK(screen.take().empty());
  screen.now += 1.0;
  bar.advance(10);
  CHECK(screen.take().find("train  30% [") != std::string::npos);
}

TEST_CASE("many threads may advance a bar") {
  Screen screen;
  ProgressBar bar({.label = "encode", .total = 4000}, screen.terminal(false));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) bar.advance(1);
    });
  }
  for (auto& t : threads) t.join();
  screen.now += 2.0;
  bar.finish();
  CHECK(screen.take() == "encode: 4.00k in 2s, 2.00k/s\n");
}
