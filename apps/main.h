// What all mains share: arguments in, one clear message and a non-zero exit code out.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>
#include <system_error>

namespace genesis {

// Parses the command line and runs `body`. The only place that catches. Returns 0; 2 for a command line that
// is wrong; 1 for anything else that is.
inline int run_main(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
  // A file-size limit (ulimit -f) is an error of the write that meets it, and not the silent end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    app.parse(argc, argv);
    body();
    std::cout.flush();
    if (std::cout) return 0;
    std::cerr << app.get_name() << ": standard output could not be written\n";
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == int(CLI::ExitCodes::Success)) return app.exit(e);  // --help
    std::cerr << app.get_name() << ": " << e.what() << "; --help lists what there is\n";
    return 2;
  } catch (const std::filesystem::filesystem_error& e) {
    std::cout.flush();
    std::cerr << app.get_name() << ": " << e.path1().string() << ": " << e.code().message() << "\n";
  } catch (const std::system_error& e) {  // the standard library's threads: all else throws Error
    const bool refused = e.code() == std::errc::resource_unavailable_try_again;
    std::cout.flush();
    std::cerr << app.get_name() << ": "
              << (refused
                      ? "cannot start a thread: a limit on processes (ulimit -u, a container's) or on memory "
                        "is reached"
                      : e.what())
              << "\n";
  } catch (const std::bad_alloc&) {
    std::cout.flush();
    std::cerr << app.get_name() << ": there is not enough memory\n";
  } catch (const std::exception& e) {
    std::cout.flush();
    std::cerr << app.get_name() << ": " << e.what() << "\n";
  }
  return 1;
}

}  // namespace genesis
