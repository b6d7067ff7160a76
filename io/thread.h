// Threads whose start can fail.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "kernels/common/error.h"

namespace genesis {

// Throws Error where the system gives no thread.
template <class Call>
std::thread start_thread(Call call) {
  try {
    return std::thread(std::move(call));
  } catch (const std::system_error& error) {
    throw Error(std::string("cannot start a thread: ") + error.code().message() +
                ": a limit on processes (ulimit -u, a container's) or on memory is reached");
  }
}

}  // namespace genesis
