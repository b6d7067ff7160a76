// What tests do with messages.
#pragma once

#include <string>

#include "kernels/common/error.h"

namespace genesis {

// The message of the genesis::Error that a call throws; empty: it threw none. Any other exception passes
// through.
template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Empty if `text` holds `part`; else what to show: CHECK(lacks(message, "line 3") == "").
inline std::string lacks(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos ? "" : "'" + part + "' is not in '" + text + "'";
}

}  // namespace genesis
