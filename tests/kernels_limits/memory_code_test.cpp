// How the memory-bound kernels' machine code on sm_89 moves global memory: in accesses of 16 bytes, but for what is
// listed here, and with all of a row's loads under way before the first is waited for.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels_limits/machine_code.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

// An access to global memory (generic ones, LD and ST, are that here: shared memory has instructions of its own).
struct Access {
  bool store = false;
  int bytes = 4;
};

bool read_access(const std::string& text, Access& access) {
  static const std::regex instruction("^(?:@!?U?P\\w+ )?(LDG|STG|LDGSTS|LD|ST)(\\.\\S*)? ");
  std::smatch m;
  if (!std::regex_search(text, m, instruction)) return false;
  const std::string width = m[2].str() + ".";
  const auto has = [&](const char* suffix) { return width.find(suffix) != std::string::npos; };
  access.store = m[1] == "STG" || m[1] == "ST";
  access.bytes = has(".128.") ? 16 : has(".64.") ? 8 : has("16.") ? 2 : has("8.") ? 1 : 4;
  return true;
}

// A kernel's narrow accesses, and why.
struct Narrow {
  const char* kernel;  // its name holds this
  int loads, stores;
  const char* why;
};

constexpr const char* kTail = "an array's last elements, one by one";

constexpr Narrow kNarrow[] = {
    {"rmsnorm_forward_kernel", 0, 1, "a group of rows' 1/rms"},
    {"rmsnorm_backward_kernel", 1, 0, "a group of rows' 1/rms"},
    {"rope_kernel", 1, 0, "the position"},
    {"add_kernel", 2, 1, kTail},
    {"qk_norm_forward_kernel", 1, 0, "the position"},
    {"qk_norm_backward_kernel", 1, 0, "the position"},
    {"cast_kernel", 1, 1, kTail},
    {"zero_kernel", 0, 1, kTail},
    {"embedding_forward_kernel", 1, 0, "the token"},
    {"embedding_backward_kernel", 3, 0, "sorted keys: the warp's, the one before, the next 32"},
    {"cross_entropy_kernel", 2, 2, "target and its logit; the row's loss, twice in the code"},
    {"adamw_kernel", 20, 7, "the chunk's tensor among all, the step's settings; a tensor's last elements"},
    {"grad_norm_kernel", 4, 1, "the chunk's tensor among all; a tensor's last elements; the chunk's sum"},
    {"attention_dkv_sum_kernel", 0, 1, "8 bytes of bf16, beside 16 of each part in fp32"},
    {"attention_append_kernel", 2, 0, "the row's slot and position"},
    {"muon_momentum_kernel", 3, 2, "the scale; a matrix's last elements; the chunk's sum"},
    {"muon_normalize_kernel", 4, 2, "scale and norm; a matrix's last elements, or zeros"},
    {"muon_polynomial_kernel", 2, 1, "a row's last elements"},
    {"muon_update_kernel", 6, 3, "scale and rate; a matrix's last elements, with a copy and without"},
};

// Kernels that have no array to move in 16 bytes, and those for shapes that 16 bytes do not divide.
constexpr const char* kWithout[] = {
    "rmsnorm_weight_kernel<1>",  // widths that 4 does not divide
    "_plain_kernel",             // the same, and rows too wide for a warp
    "swiglu_forward_kernel<float, 1>",
    "swiglu_forward_kernel<genesis::bf16, 1>",
    "swiglu_backward_kernel<float, 1>",
    "swiglu_backward_kernel<genesis::bf16, 1>",
    "embedding_forward_kernel<float, 1>",
    "embedding_forward_kernel<genesis::bf16, 1>",
    "PartTile",  // a row's last columns
    "rope_kernel<float, 1, ",
    "rope_kernel<genesis::bf16, 1, ",
    "1, 4>",                     // qk_norm's layouts of one pair an access
    "embedding_sort_kernel",     // tokens: a number a row
    "cross_entropy_sum_kernel",  // losses: a number a row
    "grad_norm_final_kernel",    // a number a chunk of 131,072
    "muon_norm_kernel",          // a number a chunk of 32,768
};

// A source file's kernels, or those of them whose name holds `kernel`.
struct MemoryBound {
  const char *file, *kernel = "";
};
constexpr MemoryBound kMemoryBound[] = {{"rmsnorm"},
                                        {"rmsnorm_plain"},
                                        {"swiglu"},
                                        {"rope"},
                                        {"qk_norm"},
                                        {"embedding"},
                                        {"elementwise"},
                                        {"adamw"},
                                        {"cross_entropy"},
                                        {"grad_norm"},
                                        {"muon"},
                                        {"attention_dkv", "attention_dkv_sum_kernel"},
                                        {"attention_cached", "attention_append_kernel"}};

bool holds(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

// The registers that an instruction's text names, a pair for an address.
std::set<int> registers_in(const std::string& text) {
  static const std::regex name("\\bR(\\d+)(\\.64)?");
  std::set<int> found;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
    found.insert(std::stoi((*it)[1]));
    if ((*it)[2].matched) found.insert(std::stoi((*it)[1]) + 1);
  }
  return found;
}

// The most 16-byte loads and asynchronous copies in a row, in the order of the code, of which none is waited for:
// no instruction names a register that is on its way, and no jump leads elsewhere but under a condition.
int loads_together(const Kernel& k) {
  static const std::regex load("^(?:@!?U?P\\w+ )?LDG\\S*\\.128 R(\\d+), (.*)"),
      leaves("^(BRA 0x|EXIT|RET|CALL)");
  int most = 0, together = 0;
  std::set<int> on_their_way;
  for (const Instruction& i : k.code) {
    std::smatch m;
    const bool is_load = std::regex_search(i.text, m, load);
    const std::set<int> used = registers_in(is_load ? m[2].str() : i.text);
    const bool waits = std::any_of(used.begin(), used.end(), [&](int r) { return on_their_way.count(r); });
    if (waits || std::regex_search(i.text, leaves)) together = 0, on_their_way.clear();
    if (is_load) {
      for (int r = 0; r < 4; ++r) on_their_way.insert(std::stoi(m[1]) + r);
    }
    together += is_load || holds(i.text, "LDGSTS.E.BYPASS.128");
    most = std::max(most, together);
  }
  return most;
}

}  // namespace

TEST_CASE("every global access of the memory-bound kernels on sm_89 is of 16 bytes, but for a list") {
  std::set<std::string> narrow_seen, without_seen;
  for (const MemoryBound& m : kMemoryBound) {
    const std::vector<Kernel>& kernels = machine_code(m.file);
    if (kernels.empty()) return;
    int found = 0;
    for (const Kernel& k : kernels) {
      if (!holds(k.name, m.kernel)) continue;
      ++found;
      INFO(k.name);
      const auto without = std::find_if(std::begin(kWithout), std::end(kWithout),
                                        [&](const char* part) { return holds(k.name, part); });
      if (without != std::end(kWithout)) {
        without_seen.insert(*without);
        continue;
      }
      int wide = 0, loads = 0, stores = 0;
      Access access;
      for (const Instruction& i : k.code) {
        if (!read_access(i.text, access)) continue;
        (access.bytes == 16 ? wide : access.store ? stores : loads) += 1;
      }
      const auto listed = std::find_if(std::begin(kNarrow), std::end(kNarrow),
                                       [&](const Narrow& n) { return holds(k.name, n.kernel); });
      const bool is_listed = listed != std::end(kNarrow);
      if (is_listed) narrow_seen.insert(listed->kernel);
      CHECK(wide > 0);
      CHECK(loads == (is_listed ? listed->loads : 0));
      CHECK(stores == (is_listed ? listed->stores : 0));
      CHECK(k.count("LDL", 0, k.code.size()) + k.count("STL", 0, k.code.size()) == 0);
    }
    INFO(m.file);
    CHECK(found > 0);
  }
  CHECK(narrow_seen.size() == std::size(kNarrow));  // none is listed in vain
  CHECK(without_seen.size() == std::size(kWithout));
}

TEST_CASE("a row's loads are all under way before the first is waited for, on sm_89") {
  // 16-byte accesses, 512 bytes of a warp. A norm's row has `pieces` of them in each array: forward x and the
  // residual, backward dy, h and, copied asynchronously, d_residual.
  struct Expected {
    const char *file, *kernel;
    int loads;
  };
  for (const Expected& e :
       {Expected{"rmsnorm", "rmsnorm_forward_kernel<genesis::bf16, 4>", 2 * 4},
        {"rmsnorm", "rmsnorm_forward_kernel<genesis::bf16, 6>", 2 * 6},
        {"rmsnorm", "rmsnorm_forward_kernel<genesis::bf16, 8>", 2 * 8},
        {"rmsnorm", "rmsnorm_backward_kernel<genesis::bf16, 4>", 3 * 4},
        {"rmsnorm", "rmsnorm_backward_kernel<genesis::bf16, 6>", 3 * 6},
        {"rmsnorm", "rmsnorm_backward_kernel<genesis::bf16, 8>", 3 * 8},
        {"rmsnorm", "rmsnorm_forward_kernel<float, 8>", 2 * 8},
        {"rmsnorm", "rmsnorm_backward_kernel<float, 8>", 3 * 8},
        {"swiglu", "swiglu_backward_kernel<genesis::bf16, 8>", 3},
        {"embedding",
         "embedding_backward_kernel<genesis::bf16, genesis::cuda::(anonymous namespace)::WholeTile>", 8},
        {"cross_entropy", "cross_entropy_kernel<genesis::bf16, 12, 0>", 12},
        {"cross_entropy", "cross_entropy_kernel<genesis::bf16, 20, 12>", 20 + 12}}) {
    INFO(e.kernel);
    const std::vector<Kernel>& kernels = machine_code(e.file);
    if (kernels.empty()) return;
    const auto k = std::find_if(kernels.begin(), kernels.end(),
                                [&](const Kernel& kernel) { return holds(kernel.name, e.kernel); });
    REQUIRE(k != kernels.end());
    CHECK(loads_together(*k) >= e.loads);
  }
}
