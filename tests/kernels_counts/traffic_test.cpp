// What memory-bound kernels move, held to what they have to: counted at the training shapes of configs/, with
// few rows where a kernel does the same for each.
#include <tuple>

#include "kernels/adamw/adamw_cases.h"
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
#include "tests/support/catch.h"

using namespace genesis;

namespace {

// Sectors touched against those that reading each input once and writing each output once takes.
constexpr double kMostTraffic = 1.02;
// Of the sectors, those touched by accesses narrower than 16 bytes: a number a row (tokens, positions,
// targets, statistics), a block's partial sum, a list of tensors. Arrays that grow with rows times width
// cannot hide there.
constexpr double kMostNarrow = 0.01;

// `bytes` are what the launches have to move: the figure that bench_kernels goes by too.
template <class Launch>
void check_traffic(const std::string& name, double bytes, const Launch& launch) {
  simt::Session session({.check_races = false, .workers = 2});
  launch();
  simt::finish();
  int64_t sectors = 0, narrow = 0, conflicts = 0;
  std::string text;
  for (const simt::LaunchReport& r : session.reports()) {
    text += r.text();
    conflicts += r.bank_conflicts();
    for (const simt::SiteCount& s : r.sites) {
      if (s.space != simt::Space::global) continue;
      sectors += s.sectors;
      if (s.bytes < 16) narrow += s.sectors;
    }
  }
  const double needed = bytes / 32;
  INFO(name << ": " << double(sectors) / needed << " of the sectors needed, " << double(narrow) / needed
            << " in narrow accesses\n"
            << text);
  CHECK(double(sectors) >= needed);
  CHECK(double(sectors) <= kMostTraffic * needed);
  CHECK(double(narrow) <= kMostNarrow * needed);
  CHECK(conflicts == 0);
}

constexpr int64_t kWidths[] = {1024, 1536, 2048};

}  // namespace

// The norms' blocks stay for many rows and read the weight once each; the backward's leave a sum each. So all
// the rows of a micro-batch are here: with fewer, blocks x weight, which is fixed, would look larger than it
// is.
TEST_CASE("traffic: rmsnorm") {
  constexpr int64_t kRows = 8192;
  for (const int64_t D : kWidths) {
    INFO("D = " << D);
    const RmsNormProblem p({"", kRows, D}, DType::bf16, cuda::rmsnorm_backward_workspace(kRows, D),
                           simt::kDeviceMemory);
    check_traffic("forward", p.forward_bytes(), [&] { cuda::rmsnorm_forward(p.forward(), {}); });
    check_traffic("again", p.replay_bytes(), [&] { cuda::rmsnorm_forward(p.replay(), {}); });
    check_traffic("backward", p.backward_bytes(), [&] { cuda::rmsnorm_backward(p.backward(), {}); });
    check_traffic("backward with y", p.backward_with_y_bytes(),
                  [&] { cuda::rmsnorm_backward(p.backward_with_y(), {}); });
  }
}

// A token has two rows on average, as in text of this length.
TEST_CASE("traffic: embedding") {
  for (const int64_t D : kWidths) {
    INFO("D = " << D);
    const EmbeddingCase c = {"", 8192, 8192, D, 4096};
    const EmbeddingProblem p(c, DType::bf16, cuda::embedding_backward_workspace(c.rows, c.V),
                             simt::kDeviceMemory);
    check_traffic("forward", p.forward_bytes(), [&] { cuda::embedding_forward(p.forward(), {}); });
    check_traffic("backward", p.backward_bytes(), [&] { cuda::embedding_backward(p.backward(), {}); });
  }
}

TEST_CASE("traffic: rope") {
  for (const auto& [H, KV] : {std::pair(12, 6), std::pair(16, 4), std::pair(16, 2)}) {
    const RopeProblem p({"", 24, H, KV, 128}, DType::bf16, simt::kDeviceMemory);
    check_traffic(std::to_string(H) + " heads", p.bytes(), [&, &p = p] { cuda::rope(p.rope(), {}); });
  }
}

// All the rows of a micro-batch backward, as for rmsnorm.
TEST_CASE("traffic: qk_norm") {
  constexpr int64_t kFew = 128, kRows = 8192;
  for (const auto& [H, KV] : {std::pair(12, 6), std::pair(16, 4), std::pair(16, 2)}) {
    INFO(H << " heads");
    const QkNormProblem few({"", kFew, H, KV, 128}, DType::bf16, 0, simt::kDeviceMemory);
    check_traffic("forward", few.forward_bytes(), [&] { cuda::qk_norm_forward(few.forward(), {}); });
    const QkNormProblem all({"", kRows, H, KV, 128}, DType::bf16,
                            cuda::qk_norm_backward_workspace(kRows, 128), simt::kDeviceMemory);
    check_traffic("backward", all.backward_bytes(), [&] { cuda::qk_norm_backward(all.backward(), {}); });
  }
}

TEST_CASE("traffic: swiglu") {
  for (const int64_t F : {4736, 5632, 4608}) {
    INFO("F = " << F);
    const SwiGluProblem p({"", 6, F}, DType::bf16, simt::kDeviceMemory);
    check_traffic("forward", p.forward_bytes(), [&] { cuda::swiglu_forward(p.forward(), {}); });
    check_traffic("backward", p.backward_bytes(), [&] { cuda::swiglu_backward(p.backward(), {}); });
  }
}

// Logits that a row reads twice: what registers and shared memory do not hold of it. Each also reads its
// target's, once more.
TEST_CASE("traffic: cross_entropy") {
  for (const auto& [V, logits, again] :
       {std::tuple(49152, DType::bf16, 0), std::tuple(129280, DType::bf16, 0),
        std::tuple(49152, DType::f32, 0), std::tuple(129280, DType::f32, 129280 - 65536)}) {
    const CrossEntropyProblem p({"", 3, V, V}, logits, logits, simt::kDeviceMemory);
    const double bytes = p.bytes() + double(p.c.rows) * again * double(size_of(logits));
    check_traffic("V = " + std::to_string(V) + ", " + name_of(logits), bytes,
                  [&] { cuda::cross_entropy(p.args(), {}); });
    simt::Session session({.check_races = false, .workers = 2});
    cuda::cross_entropy(p.args(), {});
    simt::finish();
    const simt::BufferCount read = session.report("cross_entropy").buffer(p.logits.data());
    CHECK(read.distinct_read == p.c.rows * V * int64_t(size_of(logits)) / 32);
    CHECK(read.read == p.c.rows * ((V + again) * int64_t(size_of(logits)) / 32 + 1));
  }
}

namespace {

// As many tensors as genesis_1b has, since each block looks for its own among them. The real matrices are
// hundreds of blocks each; on average a block's tensor is as far down the list as here.
std::vector<int64_t> tensors(int64_t matrix) {
  std::vector<int64_t> sizes = {2 * matrix};
  for (int layer = 0; layer < 32; ++layer) {
    sizes.insert(sizes.end(), {1536, matrix, matrix, 1536, matrix, matrix});
  }
  sizes.push_back(1536);
  return sizes;
}

}  // namespace

TEST_CASE("traffic: grad_norm") {
  GradNormProblem p({"", tensors(262144)}, simt::kDeviceMemory);
  std::vector<GradTensor> host;
  for (const int64_t n : p.c.sizes) host.push_back({nullptr, n});
  p.set_workspace(cuda::grad_norm_workspace(host.data(), p.count()), simt::kDeviceMemory);
  check_traffic("many tensors", p.bytes(), [&] { cuda::grad_norm(p.args(), {}); });
}

TEST_CASE("traffic: adamw") {
  const AdamWProblem p({"", tensors(65536)}, simt::kDeviceMemory);
  check_traffic("many tensors", p.bytes(), [&] { cuda::adamw(p.args(), {}); });
}

TEST_CASE("traffic: muon") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    INFO(name_of(dtype));
    const MuonProblem p({"", 512, 1536}, dtype, cuda::muon_momentum_workspace(512 * 1536),
                        simt::kDeviceMemory);
    check_traffic("momentum", p.momentum_bytes(), [&] { cuda::muon_momentum(p.momentum(), {}); });
    check_traffic("normalize", p.normalize_bytes(), [&] { cuda::muon_normalize(p.normalize(), {}); });
    check_traffic("polynomial", p.polynomial_bytes(), [&] { cuda::muon_polynomial(p.polynomial(), {}); });
    check_traffic("update", p.update_bytes(), [&] { cuda::muon_update(p.update(), {}); });
  }
}

TEST_CASE("traffic: add, zero, cast") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    INFO(name_of(dtype));
    const ElementwiseProblem p(32768, dtype, simt::kDeviceMemory);
    check_traffic("add", p.add_bytes(), [&] { cuda::add(p.add(), {}); });
    check_traffic("zero", p.array_bytes(), [&] { cuda::zero(p.zero(), {}); });
    for (const DType to : {DType::f32, DType::bf16}) {
      const Buffer y(to, p.n, simt::kDeviceMemory);
      check_traffic(std::string("cast to ") + name_of(to), p.cast_bytes(to),
                    [&] { cuda::cast(p.cast(y), {}); });
    }
  }
}
