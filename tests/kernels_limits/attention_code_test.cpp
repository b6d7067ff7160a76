// What attention's inner loops are made of on sm_89.
#include <cstdint>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels_limits/machine_code.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

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
  for (const Expected& e : kExpected) {
    INFO(e.kernel);
    const std::vector<Kernel>& kernels = machine_code(e.file);
    if (kernels.empty()) return;
    int found = 0;
    for (const Kernel& k : kernels) {
      if (k.name.find(e.kernel) == std::string::npos) continue;
      ++found;
      const auto [begin, end] = inner_loop(k);
      CHECK(k.count("HMMA.16816.F32.BF16", begin, end) == e.mma);
      CHECK(k.count("LDSM.16.M", begin, end) == e.matrices);
      CHECK(k.count("LDGSTS.E.BYPASS.128", begin, end) == e.copies);
      // No division or vote finds the next step.
      CHECK(k.count("I2F", begin, end) + k.count("VOTE", begin, end) == 0);
      CHECK(k.count("LDL", 0, k.code.size()) + k.count("STL", 0, k.code.size()) == 0);
    }
    CHECK(found == 1);
  }
}
