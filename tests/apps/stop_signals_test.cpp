#include "apps/train/stop_signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "tests/support/catch.h"

using namespace genesis;

namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// A process that waits for signals until it is killed. It says over a pipe that it listens, and that it was asked
// to stop.
class Waiting {
 public:
  explicit Waiting(const std::function<void()>& before = [] {}) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      before();
      StopSignals signals;
      signals.arm();
      (void)!write(ends[1], "r", 1);
      while (!signals.asked()) sleep_ms(1);
      (void)!write(ends[1], "s", 1);
      for (;;) pause();
    }
    close(ends[1]);
    from_ = ends[0];
    REQUIRE(said() == 'r');
  }
  ~Waiting() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(from_);
  }

  void send(int signal) const { REQUIRE(::kill(pid_, signal) == 0); }
  // What it says next; 0 once it has ended.
  char said() const {
    char c = 0;
    return read(from_, &c, 1) == 1 ? c : '\0';
  }
  bool lives() const { return waitpid(pid_, nullptr, WNOHANG) == 0; }
  // The signal that ended it.
  int ended_by() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t pid_ = 0;
  int from_ = -1;
};

}  // namespace

TEST_CASE("any signal that asks a program to end asks training to stop, and so do several at once") {
  for (const int first : {SIGINT, SIGTERM, SIGHUP}) {
    for (const int second : {SIGINT, SIGTERM, SIGHUP}) {
      const Waiting process([] { std::signal(SIGHUP, SIG_DFL); });
      process.send(first);
      process.send(second);
      CHECK(process.said() == 's');
      process.send(second);
      sleep_ms(20);
      CHECK(process.lives());
    }
  }
}

TEST_CASE("under nohup a terminal that closes is nothing to stop for") {
  const Waiting process([] { std::signal(SIGHUP, SIG_IGN); });
  process.send(SIGHUP);
  sleep_ms(20);
  CHECK(process.lives());
  process.send(SIGTERM);
  CHECK(process.said() == 's');  // not before: it would have been said by the other
}

TEST_CASE("a signal more than a second after the first ends the program", "[long]") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Waiting process([] { std::signal(SIGHUP, SIG_DFL); });
    process.send(SIGTERM);
    REQUIRE(process.said() == 's');
    sleep_ms(1100);
    process.send(signal);
    CHECK(process.ended_by() == signal);
  }
}
