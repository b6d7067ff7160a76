// What all mains share: arguments in, one clear message and a non-zero exit code out.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <iostream>

namespace genesis {

// Parses the command line and runs `body`. The only place that catches.
inline int run_main(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
  CLI11_PARSE(app, argc, argv);
  try {
    body();
    std::cout.flush();
    if (std::cout) return 0;
    std::cerr << app.get_name() << ": standard output could not be written\n";
  } catch (const std::exception& e) {
    std::cout.flush();
    std::cerr << app.get_name() << ": " << e.what() << "\n";
  }
  return 1;
}

}  // namespace genesis
