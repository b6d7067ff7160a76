// What a program is made of, for --version and reports of errors.
#pragma once

#include <string>

namespace genesis {

// Version, commit, compiler, libraries (as compiled with, and as loaded where that is another), what the CPU has, what
// `device.dtype: auto` takes, and the GPUs compiled for. Some lines, the first "<program> <version>".
std::string version_text(const std::string& program);

}  // namespace genesis
