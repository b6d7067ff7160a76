#include "apps/main.h"

#include <csignal>
#include <exception>
#include <iostream>

#include "apps/error_text.h"
#include "apps/version.h"

namespace genesis {
namespace {

int written(const std::string& program) {
  std::cout.flush();
  if (std::cout) return 0;
  std::cerr << program << ": standard output could not be written\n";
  return 1;
}

// An option that there is not, which CLI11 would name only after all that is missing. A program that takes config fields
// or another library's flags (allow_extras) has the form --name=value for them.
std::string unknown_option(const CLI::App& app) {
  for (const std::string& extra : app.remaining(true)) {
    if (extra.starts_with('-') && !(app.get_allow_extras() && extra.find('=') != std::string::npos))
      return extra;
  }
  return "";
}

int refuse(const CLI::App& app, const std::string& message) {
  std::cerr << app.get_name() << ": " << message << "; --help lists what there is\n";
  return 2;
}

}  // namespace

int run_main(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
  // A file-size limit (ulimit -f) is an error of the write that meets it, and not the silent end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  app.set_version_flag(
      "--version", [&] { return version_text(app.get_name()); }, "what it is made of, and what this CPU has");
  try {
    app.parse(argc, argv);
    body();
    return written(app.get_name());
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != int(CLI::ExitCodes::Success)) {
      const std::string unknown = unknown_option(app);
      return refuse(app, unknown.empty() ? e.what() : "unknown option " + unknown);
    }
    app.exit(e);  // --help, --version
    return written(app.get_name());
  } catch (const std::exception& e) {
    std::cout.flush();
    std::cerr << app.get_name() << ": " << error_text(e) << "\n";
  }
  return 1;
}

}  // namespace genesis
