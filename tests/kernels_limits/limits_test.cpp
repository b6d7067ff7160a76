// What the compiler made of the kernels that a training step runs: no spills, and as many blocks on a
// multiprocessor as a committed table says.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "kernels/adamw/adamw_cases.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/common/error.h"
#include "kernels/cross_entropy/cross_entropy_cases.h"
#include "kernels/elementwise/elementwise_cases.h"
#include "kernels/embedding/embedding_cases.h"
#include "kernels/grad_norm/grad_norm_cases.h"
#include "kernels/muon/muon_cases.h"
#include "kernels/qk_norm/qk_norm_cases.h"
#include "kernels/rmsnorm/rmsnorm_cases.h"
#include "kernels/rope/rope_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "kernels/swiglu/swiglu_cases.h"
#include "tests/kernels_limits/compiled.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

void launch_attention(int64_t K, DType dtype) {
  AttentionProblem p({"", 1, 2, 12, 6, K}, dtype, simt::kDeviceMemory);
  p.take_workspaces(cuda::attention_forward_workspace(p.shape), cuda::attention_backward_workspace(p.shape),
                    simt::kDeviceMemory);
  cuda::attention_forward(p.forward(), {});
  cuda::attention_backward(p.backward(), {});
  const AttentionCache cache(p, 1, simt::kDeviceMemory);
  cuda::attention_cached(cache.step(std::vector<AttentionCache::Token>{{0, 0}}), {});
  simt::finish();
}

// The ops that have a dtype, at the shapes of the configs (few rows), and at widths and head sizes that
// choose other kernels.
void launch_in(DType dtype) {
  const ElementwiseProblem elementwise(4096, dtype, simt::kDeviceMemory);
  cuda::add(elementwise.add(), {});
  cuda::zero(elementwise.zero(), {});
  const Buffer to(dtype == DType::f32 ? DType::bf16 : DType::f32, 4096, simt::kDeviceMemory);
  cuda::cast(elementwise.cast(to), {});
  for (const int64_t K : {64, 128, 256}) {
    const RopeProblem p({"", 2, 12, 6, K}, dtype, simt::kDeviceMemory);
    cuda::rope(p.rope(), {});
    const QkNormProblem q({"", 2, 12, 6, K}, dtype, cuda::qk_norm_backward_workspace(2, K),
                          simt::kDeviceMemory);
    cuda::qk_norm_forward(q.forward(), {});
    cuda::qk_norm_backward(q.backward(), {});
    launch_attention(K, dtype);
  }
  for (const int64_t D : {259, 512, 768, 1024, 1536, 2048}) {
    const RmsNormProblem p({"", 4, D}, dtype, cuda::rmsnorm_backward_workspace(4, D), simt::kDeviceMemory);
    cuda::rmsnorm_forward(p.forward(), {});
    cuda::rmsnorm_backward(p.backward(), {});
    const EmbeddingProblem e({"", 2, 4, D, 2}, dtype, cuda::embedding_backward_workspace(2, 4),
                             simt::kDeviceMemory);
    cuda::embedding_forward(e.forward(), {});
    cuda::embedding_backward(e.backward(), {});
  }
  const SwiGluProblem swiglu({"", 2, 4736}, dtype, simt::kDeviceMemory);
  cuda::swiglu_forward(swiglu.forward(), {});
  cuda::swiglu_backward(swiglu.backward(), {});
  for (const int64_t V : {4096, 49152, 129280}) {
    const CrossEntropyProblem p({"", 1, V, V}, dtype, dtype, simt::kDeviceMemory);
    cuda::cross_entropy(p.args(), {});
  }
  const MuonProblem muon({"", 8, 512}, dtype, cuda::muon_momentum_workspace(8 * 512), simt::kDeviceMemory);
  cuda::muon_momentum(muon.momentum(), {});
  cuda::muon_normalize(muon.normalize(), {});
  cuda::muon_polynomial(muon.polynomial(), {});
  cuda::muon_update(muon.update(), {});
}

// Starts every kernel of a training step, to learn how each is launched.
void launch_all() {
  for (const DType dtype : {DType::bf16, DType::f32}) launch_in(dtype);
  GradNormProblem norm({"", {100}}, simt::kDeviceMemory);
  norm.set_workspace(64, simt::kDeviceMemory);
  cuda::grad_norm(norm.args(), {});
  const AdamWProblem adamw({"", {100}}, simt::kDeviceMemory);
  cuda::adamw(adamw.args(), {});
}

// How a kernel is launched.
struct Launched {
  std::string kernel;
  int block = 0;
  size_t shared_bytes = 0;
  auto operator<=>(const Launched&) const = default;
};

std::set<Launched> launched_kernels() {
  const Symbols symbols;
  simt::Session session({.check_races = false, .count = false});
  launch_all();
  simt::finish();
  std::set<Launched> launched;
  for (const simt::LaunchReport& r : session.reports()) {
    const std::string name = symbols.name_of(r.kernel);
    check(!name.empty(), "no symbol for kernel " + r.name);
    launched.insert({demangled(name), r.block, r.shared_bytes});
  }
  return launched;
}

// Blocks that fit on a multiprocessor of compute capability 8.9: CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability", and the occupancy calculator's granularities.
int blocks_on_sm_89(int block, int registers, size_t shared_bytes) {
  constexpr int kThreads = 1536, kBlocks = 24, kRegisters = 65536, kRegisterUnit = 256, kSchedulers = 4;
  constexpr size_t kShared = 100 * 1024, kSharedUnit = 128, kReservedShared = 1024;
  const int warps = block / 32;
  const int registers_a_warp = (registers * 32 + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
  const int warps_by_registers = kRegisters / kSchedulers / registers_a_warp * kSchedulers;
  const size_t shared = (shared_bytes + kReservedShared + kSharedUnit - 1) / kSharedUnit * kSharedUnit;
  return std::min({kBlocks, kThreads / block, warps_by_registers / warps, int(kShared / shared)});
}

// "void genesis::cuda::(anonymous namespace)::f<...>(args)" as "f<...>".
std::string short_name(std::string name) {
  for (const std::string gone : {"genesis::cuda::", "(anonymous namespace)::", "genesis::", "void "}) {
    for (size_t at = name.find(gone); at != std::string::npos; at = name.find(gone))
      name.erase(at, gone.size());
  }
  return name.substr(0, name.find('('));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("no kernel spills or has a stack frame, on any architecture") {
  const CompiledKernels compiled = compiled_kernels();
  std::set<std::string> architectures;
  for (const auto& [key, kernel] : compiled) architectures.insert(key.first);
  REQUIRE(!architectures.empty());
  for (const Launched& l : launched_kernels()) {
    for (const std::string& architecture : architectures) {
      INFO(l.kernel << " on " << architecture);
      const auto it = compiled.find({architecture, l.kernel});
      REQUIRE(it != compiled.end());
      CHECK(it->second.registers > 0);
      CHECK(it->second.spill_bytes == 0);
      CHECK(it->second.stack_bytes == 0);
    }
  }
}

TEST_CASE("registers, shared memory and blocks a multiprocessor on sm_89 are those of the committed table") {
  const CompiledKernels compiled = compiled_kernels();
  std::string table = fmt::format("nvcc {}, sm_89\n{:>6} {:>9} {:>6} {:>6}  kernel\n", GENESIS_NVCC_VERSION,
                                  "block", "registers", "shared", "blocks");
  for (const Launched& l : launched_kernels()) {
    const auto it = compiled.find({"sm_89", l.kernel});
    if (it == compiled.end()) {
      WARN("the build is not for sm_89: " << l.kernel);
      return;
    }
    const Compiled& c = it->second;
    const size_t shared = l.shared_bytes + size_t(c.static_shared_bytes);
    table += fmt::format("{:>6} {:>9} {:>6} {:>6}  {}\n", l.block, c.registers, shared,
                         blocks_on_sm_89(l.block, c.registers, shared), short_name(l.kernel));
  }
  const std::string committed = read_file(GENESIS_SOURCE_DIR "/tests/kernels_limits/sm_89.txt");
  REQUIRE(!committed.empty());
  if (committed.substr(0, committed.find('\n')) != table.substr(0, table.find('\n'))) {
    WARN("the committed table is of another nvcc");
    return;
  }
  const std::string path = GENESIS_BIN_DIR "/sm_89.txt";
  std::ofstream(path) << table;
  INFO("the new table is in " << path << "; if it is meant, copy it to tests/kernels_limits/sm_89.txt");
  CHECK(table == committed);
}
