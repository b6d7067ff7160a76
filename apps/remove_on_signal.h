// What a signal that ends the program does about half-written files.
#pragma once

#include <string>
#include <vector>

namespace genesis {

// From here on SIGINT, SIGTERM and SIGHUP remove these files, where they exist, before they end the program.
// Called once, in the main thread, before other threads are started: the signals are blocked there, and a thread
// of their own waits for them. A signal that is ignored stays so. SIGKILL leaves the files, and the next run
// under the same names writes over them.
void remove_on_signal(std::vector<std::string> files);

}  // namespace genesis
