// What attention's inner loops are made of on sm_89, where cuobjdump and the nvdisasm that it calls are to be had
// (CUDA's toolkit, or the Python packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm).
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/common/error.h"
#include "tests/support/catch.h"
#include "tests/support/symbols.h"

using namespace genesis;

namespace {

std::string output_of(const std::string& command) {
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

std::vector<Kernel> kernels_in(const std::string& object) {
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

// The shortest loop with matrix instructions, as the indices of its first and past its last instruction.
std::pair<size_t, size_t> inner_loop(const Kernel& k) {
  static const std::regex jump("BRA .*0x([0-9a-f]+)");
  std::pair<size_t, size_t> loop = {0, 0};
  std::smatch m;
  for (size_t end = 0; end < k.code.size(); ++end) {
    if (!std::regex_search(k.code[end].text, m, jump)) continue;
    const int64_t target = std::stoll(m[1], nullptr, 16);
    size_t begin = end;
    while (begin > 0 && k.code[begin].address > target) --begin;
    if (k.code[begin].address != target || k.count("HMMA", begin, end) == 0) continue;
    if (loop.second == 0 || end - begin < loop.second - loop.first) loop = {begin, end + 1};
  }
  return loop;
}

// What the tiling says of a loop: matrix instructions, ldmatrix.x4, 16-byte asynchronous copies.
struct Expected {
  const char *file, *kernel;
  int64_t mma, matrices, copies;
};

constexpr Expected kExpected[] = {
    {"attention_forward", "attention_forward_kernel<64>", 64, 32, 8},
    {"attention_forward", "attention_forward_kernel<128>", 128, 64, 16},
    {"attention_dq", "attention_dq_kernel<64>", 48, 24, 4},
    {"attention_dq", "attention_dq_kernel<128>", 96, 48, 8},
    {"attention_dkv", "attention_dkv_kernel<64>", 64, 36, 4},
    {"attention_dkv", "attention_dkv_kernel<128>", 128, 72, 8},
};

}  // namespace

TEST_CASE("attention's inner loops on sm_89 are matrix instructions, ldmatrix and asynchronous copies") {
  for (const std::string tool : {"cuobjdump", "nvdisasm"}) {
    if (!output_of(tool + " --version 2>/dev/null").empty()) continue;
    WARN(tool + " is not installed: the machine code was not looked at");
    return;
  }
  for (const Expected& e : kExpected) {
    INFO(e.kernel);
    std::string object;
    for (const auto& file : std::filesystem::recursive_directory_iterator(GENESIS_NVCC_LOGS)) {
      if (file.path().filename() == std::string(e.file) + ".cu.o") object = file.path();
    }
    REQUIRE(!object.empty());
    const std::vector<Kernel> kernels = kernels_in(object);
    if (output_of("cuobjdump -lelf '" + object + "'").find("sm_89") == std::string::npos) {
      WARN("the build is for other architectures than sm_89");
      return;
    }
    int found = 0;
    for (const Kernel& k : kernels) {
      if (k.name.find(e.kernel) == std::string::npos) continue;
      ++found;
      const auto [begin, end] = inner_loop(k);
      CHECK(k.count("HMMA.16816.F32.BF16", begin, end) == e.mma);
      CHECK(k.count("LDSM.16.M", begin, end) == e.matrices);
      CHECK(k.count("LDGSTS.E.BYPASS.128", begin, end) == e.copies);
      CHECK(k.count("LDL", 0, k.code.size()) + k.count("STL", 0, k.code.size()) == 0);
    }
    CHECK(found == 1);
  }
}
