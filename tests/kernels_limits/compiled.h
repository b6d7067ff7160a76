// What nvcc's logs say of each kernel, from the build of genesis_kernels_cuda.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <utility>

#include "tests/support/symbols.h"

namespace genesis {

struct Compiled {
  int registers = 0;
  int stack_bytes = 0, spill_bytes = 0;
  int static_shared_bytes = 0;
};

// By architecture, as in sm_89, and the kernel's C++ name.
using CompiledKernels = std::map<std::pair<std::string, std::string>, Compiled>;

inline void read_nvcc_log(const std::filesystem::path& path, CompiledKernels& kernels) {
  static const std::regex entry("Compiling entry function '(.*)' for '(.*)'");
  static const std::regex frame(
      "(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads");
  static const std::regex used("Used (\\d+) registers"), shared("(\\d+) bytes smem");
  std::ifstream log(path);
  Compiled* kernel = nullptr;
  std::smatch m;
  for (std::string line; std::getline(log, line);) {
    if (std::regex_search(line, m, entry)) kernel = &kernels[{m[2], demangled(m[1])}];
    if (!kernel) continue;
    if (std::regex_search(line, m, frame)) {  // its own, and those of functions that were not inlined
      kernel->stack_bytes += std::stoi(m[1]);
      kernel->spill_bytes += std::stoi(m[2]) + std::stoi(m[3]);
    }
    if (std::regex_search(line, m, used)) kernel->registers = std::stoi(m[1]);
    if (std::regex_search(line, m, shared)) kernel->static_shared_bytes = std::stoi(m[1]);
  }
}

inline CompiledKernels compiled_kernels() {
  CompiledKernels kernels;
  for (const auto& file : std::filesystem::recursive_directory_iterator(GENESIS_NVCC_LOGS)) {
    if (file.path().string().ends_with(".cu.o.log")) read_nvcc_log(file.path(), kernels);
  }
  return kernels;
}

}  // namespace genesis
