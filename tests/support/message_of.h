// The message of the genesis::Error that a call throws; empty: it threw none. Any other exception passes
// through.
#pragma once

#include <string>

#include "kernels/common/error.h"

namespace genesis {

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace genesis
