// SIGINT, SIGTERM and SIGHUP as a question that training asks between steps.
#pragma once

namespace genesis {

// No handler is installed: the signals are blocked in every thread that starts afterwards, and a thread of their
// own waits for them. A handler would run on the stack of a thread that may be inside a matrix product, where
// oneDNN 2.6's fp32 kernels for AVX2 hold data that the handler's frame overwrites: 1 in 60 runs that were
// interrupted died of a corrupted heap, and all that got 2,000 signals a second.
//
// SIGHUP stays ignored where the program was started so: by nohup(1).
class StopSignals {
 public:
  // In the main thread, before others are started. A signal still ends the program.
  StopSignals();

  // From here on the first signal asks to stop. One within a second of it is the same request: timeout(1) sends
  // two, and so does a service manager that closes a terminal too. A later one ends the program at once.
  //
  // Writing to a pipe that nobody reads is an error of the writer from here on, not a signal.
  void arm();
  bool asked() const;
};

}  // namespace genesis
