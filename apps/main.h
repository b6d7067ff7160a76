// What all mains share: arguments in, one clear message and a non-zero exit code out.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace genesis {

// Parses the command line and runs `body`; adds --version. The only place that catches. Returns 0; 2 for a command
// line that is wrong; 1 for anything else that is, output that could not be written included.
int run_main(CLI::App& app, int argc, char** argv, const std::function<void()>& body);

}  // namespace genesis
