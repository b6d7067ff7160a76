#include "apps/train/stop_signals.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace genesis {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kSameRequest{1};

// Of the process, as its signals are; the waiting thread lives as long as it.
std::atomic<bool> armed = false, stop = false;

void end_by(int signal, const sigset_t& blocked) {
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  std::raise(signal);
}

void wait_for(sigset_t signals) {
  Clock::time_point first;
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (!armed) end_by(signal, signals);
    if (!stop.exchange(true)) {
      first = Clock::now();
    } else if (Clock::now() - first > kSameRequest) {
      end_by(signal, signals);
    }
  }
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // An ignored signal that is blocked would be waited for all the same.
  if (!is_ignored(SIGHUP)) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] { wait_for(signals); }).detach();
}

void StopSignals::arm() {
  std::signal(SIGPIPE, SIG_IGN);
  armed = true;
}

bool StopSignals::asked() const { return stop; }

}  // namespace genesis
