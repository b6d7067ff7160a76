// Errors. A user's or the environment's mistake throws genesis::Error with what was expected, what was found
// and what to do; a programmer's mistake is an assert. Only main() catches.
#pragma once

#include <stdexcept>
#include <string>

#include "kernels/common/source_location.h"

namespace genesis {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws Error(message) unless `ok`. For conditions a user or the environment can break. The message is built
// whether or not it is needed: not for inner loops.
inline void check(bool ok, const std::string& message) {
  if (!ok) throw Error(message);
}

// As check, for what a caller inside the program promised: the message gets the place in the source.
inline void require(bool ok, const char* message, SourceLocation where = SourceLocation::current()) {
  if (!ok) {
    throw Error(std::string("internal error: ") + message + " (" + where.file_name() + ":" +
                std::to_string(where.line()) + ")");
  }
}

}  // namespace genesis
