#include "apps/error_text.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace genesis {

std::string error_text(const std::exception& error) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return file->path1().string() + ": " + file->code().message();
  // The standard library's threads: all else throws Error.
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return "cannot start a thread: a limit on processes (ulimit -u, a container's) or on memory is reached";
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "there is not enough memory";
  return error.what();
}

}  // namespace genesis
