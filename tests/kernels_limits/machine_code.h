// The machine code of the CUDA kernels on sm_89, from the build of genesis_kernels_cuda, by cuobjdump and the nvdisasm
// that it calls (CUDA's toolkit, or the Python packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm).
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/common/error.h"
#include "tests/support/catch.h"
#include "tests/support/symbols.h"

namespace genesis {

inline std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  check(pipe != nullptr, "cannot run " + command);
  std::string text;
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, pipe.get())) > 0;) text.append(part, n);
  return text;
}

struct Instruction {
  int64_t address = 0;
  std::string text;
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;

  // Instructions from first on up to last whose text holds `what`.
  int64_t count(const std::string& what, size_t first, size_t last) const {
    int64_t n = 0;
    for (size_t i = first; i < last; ++i) n += code[i].text.find(what) != std::string::npos;
    return n;
  }
};

// Of one object file.
inline std::vector<Kernel> kernels_in(const std::string& object) {
  static const std::regex function("Function : (\\S+)"), instruction("^\\s+/\\*([0-9a-f]+)\\*/\\s+(.*?);");
  std::vector<Kernel> kernels;
  std::istringstream lines(output_of("cuobjdump -sass -arch sm_89 '" + object + "' 2>/dev/null"));
  std::smatch m;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, m, function)) {
      kernels.push_back({demangled(m[1]), {}});
    } else if (!kernels.empty() && std::regex_search(line, m, instruction)) {
      kernels.back().code.push_back({std::stoll(m[1], nullptr, 16), m[2]});
    }
  }
  return kernels;
}

// Those of kernels/<name>.cu, read once. Empty, with a warning, if there is nothing to read them with or the build is
// for other architectures.
inline const std::vector<Kernel>& machine_code(const std::string& name) {
  static std::map<std::string, std::vector<Kernel>> files;
  const auto [file, is_new] = files.try_emplace(name);
  if (!is_new) return file->second;
  for (const std::string tool : {"cuobjdump", "nvdisasm"}) {
    if (!output_of(tool + " --version 2>/dev/null").empty()) continue;
    WARN(tool + " is not installed: the machine code was not looked at");
    return file->second;
  }
  std::string object;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GENESIS_NVCC_LOGS)) {
    if (entry.path().filename() == name + ".cu.o") object = entry.path();
  }
  check(!object.empty(), "no object file of " + name + ".cu");
  if (output_of("cuobjdump -lelf '" + object + "'").find("sm_89") == std::string::npos) {
    WARN("the build is for other architectures than sm_89");
    return file->second;
  }
  return file->second = kernels_in(object);
}

}  // namespace genesis
