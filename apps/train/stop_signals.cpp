#include "apps/train/stop_signals.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace genesis {
namespace {

// Of the process, as its signals are; the waiting thread lives as long as it.
std::atomic<bool> armed = false, stop = false;

void wait_for(sigset_t signals) {
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (armed && !stop.exchange(true)) continue;
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    std::raise(signal);
  }
}

// Whoever reads the output has gone: training ends as if asked to, and later writes fail quietly. This signal
// comes to the thread that writes, while it does: a handler is safe.
void output_closed(int) { stop = true; }

}  // namespace

StopSignals::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(wait_for, signals).detach();
}

void StopSignals::arm() {
  std::signal(SIGPIPE, output_closed);
  armed = true;
}

bool StopSignals::asked() const { return stop; }

}  // namespace genesis
