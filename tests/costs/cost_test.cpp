// The engine's cost model against the CUDA kernels: what it says an op moves and multiplies is what the host
// executor counts. Planning, recomputation and the rooflines of docs/performance.md go by it.
#include <algorithm>
#include <vector>

#include "engine/build/builder.h"
#include "engine/ops/attention.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"
#include "engine/ops/muon.h"
#include "engine/ops/optimizer.h"
#include "engine/ops/qk_norm.h"
#include "engine/ops/rmsnorm.h"
#include "engine/ops/rope.h"
#include "engine/ops/swiglu.h"
#include "kernels/adamw/adamw_cases.h"
#include "kernels/attention/attention_cases.h"
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

constexpr DType kType = DType::bf16;
constexpr int64_t kRows = 64, kD = 1536;

// What nodes cost, on arrays that come from nowhere.
struct CostGraph {
  Graph graph;
  Builder builder{graph};

  ValueId array(Shape shape, DType dtype = kType) {
    return builder.persistent("array" + std::to_string(graph.values.size()), shape, dtype, Role::activation);
  }
  Cost cost(const OpDef& op, std::any attrs, std::vector<ValueId> in, std::vector<std::string> out,
            std::vector<ValueId> into = {}) {
    const NodeId n = builder.append(op, std::move(attrs), std::move(in), std::move(out), std::move(into));
    return cost_of(graph, graph.nodes[size_t(n)]);
  }
};

// Each launch reads a sector of memory once and writes it once, which is so as long as the caches lose none.
double counted_bytes(const simt::LaunchReport& report, const void* scratch) {
  int64_t sectors = 0;
  for (const simt::BufferCount& b : report.buffers) {
    if (b.data != scratch) sectors += b.distinct_read + b.distinct_written;
  }
  return 32. * double(sectors);
}

// Launches, and checks their number, and their bytes to 2%. Scratch memory is not in the engine's arrays.
template <class Launch>
void check_kernel(const KernelCost& cost, const void* scratch, const Launch& launch) {
  simt::Session session({.check_races = false});
  launch();
  simt::finish();
  double counted = 0;
  for (const simt::LaunchReport& r : session.reports()) counted += counted_bytes(r, scratch);
  INFO(cost.name << ": " << cost.bytes << " bytes by the engine, " << counted << " counted; " << cost.launches
                 << " launches, " << session.reports().size() << " seen");
  CHECK(std::abs(cost.bytes - counted) <= 0.02 * counted);
  CHECK(cost.launches == double(session.reports().size()));
}

// The only kernel of a node.
const KernelCost& only(const Cost& cost) {
  REQUIRE(cost.kernels.size() == 1);
  return cost.kernels[0];
}

}  // namespace

TEST_CASE("cost: an embedding's bytes are those that its CUDA kernels move") {
  constexpr int64_t kV = 100;
  const EmbeddingProblem p({"", kRows, kV, kD, kV}, kType, cuda::embedding_backward_workspace(kRows, kV),
                           simt::kDeviceMemory);
  for (int64_t r = 0; r < kRows; ++r) p.tokens.as<int32_t>()[r] = int32_t(r);  // the most: all different
  CostGraph g;
  const ValueId tokens = g.array({kRows}, DType::i32), table = g.array({kV, kD});
  check_kernel(only(g.cost(ops::kEmbedding, {}, {tokens, table}, {"y"})), nullptr,
               [&] { cuda::embedding_forward(p.forward(), {}); });
  const Cost backward = g.cost(ops::kEmbeddingBackward, {}, {tokens, g.array({kRows, kD})}, {},
                               {g.array({kV, kD}, DType::f32)});
  check_kernel(only(backward), p.workspace.data(), [&] { cuda::embedding_backward(p.backward(), {}); });
}

TEST_CASE("cost: a norm's bytes are those that its CUDA kernels move") {
  const RmsNormProblem p({"", kRows, kD}, kType, cuda::rmsnorm_backward_workspace(kRows, kD),
                         simt::kDeviceMemory);
  CostGraph g;
  const ValueId x = g.array({kRows, kD}), weight = g.array({kD}), rstd = g.array({kRows}, DType::f32);
  check_kernel(only(g.cost(ops::kRmsNorm, NormAttrs{}, {x, x, weight}, {"h", "y", "rstd"})), nullptr,
               [&] { cuda::rmsnorm_forward(p.forward(), {}); });
  check_kernel(only(g.cost(ops::kRmsNorm, NormAttrs{}, {x, kNone, weight}, {"", "y2", "rstd2"})), nullptr,
               [&] { cuda::rmsnorm_forward(p.replay(), {}); });
  const Cost backward = g.cost(ops::kRmsNormBackward, NormAttrs{}, {x, x, x, rstd, weight}, {"dh", ""},
                               {g.array({kD}, DType::f32)});
  check_kernel(only(backward), p.workspace.data(), [&] { cuda::rmsnorm_backward(p.backward(), {}); });
  const Cost with_y = g.cost(ops::kRmsNormBackward, NormAttrs{}, {x, x, x, rstd, weight}, {"dh2", "y again"},
                             {g.array({kD}, DType::f32)});
  check_kernel(only(with_y), p.workspace.data(), [&] { cuda::rmsnorm_backward(p.backward_with_y(), {}); });
}

TEST_CASE("cost: the rotation's bytes are those that its CUDA kernel moves") {
  for (const auto& [H, KV] : {std::pair(12, 6), std::pair(16, 4), std::pair(16, 2)}) {
    const RopeProblem p({"", kRows, H, KV, 128}, kType, simt::kDeviceMemory);
    CostGraph g;
    const ValueId qkv = g.array({kRows, int64_t(H + 2 * KV) * 128}), at = g.array({kRows}, DType::i32);
    check_kernel(only(g.cost(ops::kRope, RopeAttrs{.H = H, .KV = KV, .K = 128}, {qkv, at}, {"y"})), nullptr,
                 [&, &p = p] { cuda::rope(p.rope(), {}); });
  }
}

TEST_CASE("cost: the bytes of the norm of queries and keys are those that its CUDA kernels move") {
  for (const auto& [H, KV] : {std::pair(12, 6), std::pair(16, 2)}) {
    constexpr int64_t K = 128;
    const QkNormProblem p({"", kRows, H, KV, K}, kType, cuda::qk_norm_backward_workspace(kRows, K),
                          simt::kDeviceMemory);
    CostGraph g;
    const ValueId qkv = g.array({kRows, (H + 2 * KV) * K}), at = g.array({kRows}, DType::i32);
    const ValueId q = g.array({K}), k = g.array({K});
    const QkNormAttrs attrs{{.H = H, .KV = KV, .K = K}};
    check_kernel(only(g.cost(ops::kQkNorm, attrs, {qkv, at, q, k}, {"rotated"})), nullptr,
                 [&, &p = p] { cuda::qk_norm_forward(p.forward(), {}); });
    const Cost backward = g.cost(ops::kQkNormBackward, attrs, {qkv, at, q, k, qkv}, {"d_qkv"},
                                 {g.array({K}, DType::f32), g.array({K}, DType::f32)});
    check_kernel(only(backward), p.workspace.data(),
                 [&, &p = p] { cuda::qk_norm_backward(p.backward(), {}); });
  }
}

TEST_CASE("cost: SwiGLU's bytes are those that its CUDA kernels move") {
  constexpr int64_t kF = 4736;
  const SwiGluProblem p({"", 4, kF}, kType, simt::kDeviceMemory);
  CostGraph g;
  const ValueId gate_up = g.array({4, 2 * kF}), dy = g.array({4, kF});
  check_kernel(only(g.cost(ops::kSwiGlu, SwiGluAttrs{}, {gate_up}, {"y"})), nullptr,
               [&] { cuda::swiglu_forward(p.forward(), {}); });
  SwiGluBackward backward = p.backward();
  backward.y = nullptr;
  check_kernel(only(g.cost(ops::kSwiGluBackward, SwiGluAttrs{}, {dy, gate_up}, {"d", ""})), nullptr,
               [&] { cuda::swiglu_backward(backward, {}); });
  check_kernel(only(g.cost(ops::kSwiGluBackward, SwiGluAttrs{}, {dy, gate_up}, {"d2", "y again"})), nullptr,
               [&] { cuda::swiglu_backward(p.backward(), {}); });
}

TEST_CASE("cost: the sums', zeros' and the optimizer's bytes are those that their CUDA kernels move") {
  constexpr int64_t kN = 65536;
  CostGraph g;
  const ElementwiseProblem e(kN, kType, simt::kDeviceMemory);
  check_kernel(only(g.cost(ops::kAdd, {}, {g.array({kN}), g.array({kN})}, {"sum"})), nullptr,
               [&] { cuda::add(e.add(), {}); });
  check_kernel(only(g.cost(ops::kZero, {}, {}, {}, {g.array({kN})})), nullptr,
               [&] { cuda::zero(e.zero(), {}); });

  const auto array = [&] { return g.array({kN}, DType::f32); };
  const ValueId grad = array(), loss = g.array({kLossSumFloats}, DType::f32),
                scale = g.array({2}, DType::f32);
  GradNormProblem n({"", {kN}}, simt::kDeviceMemory);
  n.set_workspace(1024, simt::kDeviceMemory);
  check_kernel(only(g.cost(ops::kGradNorm, GradNormAttrs{}, {loss, grad}, {}, {scale})), n.workspace.data(),
               [&] { cuda::grad_norm(n.args(), {}); });
  for (const bool copy : {true, false}) {
    const AdamWProblem a({"", {kN}, copy}, simt::kDeviceMemory);
    std::vector<ValueId> changed = {array(), array(), array()};
    if (copy) changed.push_back(g.array({kN}));
    const ValueId step = g.array({3}, DType::f32);
    check_kernel(only(g.cost(ops::kAdamW, AdamWAttrs{.tensors = {{.weight_decay = 0.1f}}},
                             {step, scale, grad}, {}, changed)),
                 nullptr, [&] { cuda::adamw(a.args(), {}); });
  }
}

// The products are cuBLASLt's: they count as their arrays' bytes.
TEST_CASE("cost: Muon's bytes are those of its products and of its CUDA kernels' passes") {
  constexpr int kIterations = kMuonPolarExpress4.count;
  constexpr int64_t kMatrices = 2, kSmall = 256, kLarge = 1024, kN = kSmall * kLarge;
  for (const DType t : {DType::f32, DType::bf16}) {
    INFO(name_of(t));
    CostGraph g;
    const Shape whole{kMatrices * kSmall, kLarge};
    const auto array = [&] { return g.array(whole, DType::f32); };
    std::vector<ValueId> changed{array(), array()};
    if (t == DType::bf16) changed.push_back(g.array(whole, t));
    MuonAttrs attrs;
    attrs.rows = kSmall;
    attrs.columns = kLarge;
    attrs.coefficients = kMuonPolarExpress4;
    attrs.matrices = {{0, 0}, {0, kSmall}};
    const Cost cost =
        g.cost(ops::kMuon, attrs, {g.array({1}, DType::f32), g.array({2}, DType::f32), array()}, {}, changed);
    const MuonProblem p({"", kSmall, kLarge}, t, cuda::muon_momentum_workspace(kN), simt::kDeviceMemory);
    MuonUpdate update = p.update();
    if (t == DType::f32) update.copy = nullptr;
    const auto for_each = [&](int64_t times, const auto& kernel, const auto& args) {
      return [&, times] {
        for (int64_t i = 0; i < kMatrices * times; ++i) kernel(args, Stream{});
      };
    };
    REQUIRE(cost.kernels.size() == (t == DType::bf16 ? 6 : 5));
    check_kernel(cost.kernels[0], p.workspace.data(), for_each(1, cuda::muon_momentum, p.momentum()));
    check_kernel(cost.kernels[1], nullptr, for_each(1, cuda::muon_normalize, p.normalize()));
    check_kernel(cost.kernels[3], nullptr, for_each(kIterations, cuda::muon_polynomial, p.polynomial()));
    check_kernel(cost.kernels[4], nullptr, for_each(1, cuda::muon_update, update));
    if (t == DType::bf16) {
      const Cast round{kSmall * kSmall, DType::f32, t, p.square.data(), p.gram.data()};
      check_kernel(cost.kernels[5], nullptr, for_each(kIterations, cuda::cast, round));
    }
    // Of an iteration: A = X X^T, A A, and a polynomial of A times X.
    const auto size = double(size_of(t)), x = double(kN), a = double(kSmall * kSmall);
    const KernelCost& products = cost.kernels[2];
    CHECK(products.bytes ==
          kMatrices * kIterations * ((size * x + 4 * a) + (size * a + 4 * a) + (size * (a + x) + size * x)));
    CHECK(products.flops == kMatrices * kIterations * 2. * (x * kSmall + a * kSmall + x * kSmall));
    CHECK(products.launches == kMatrices * kIterations * 3);
    CHECK(cost.flops == cost.kernel_flops());
  }
}

// The products are cuBLASLt's: they count as their operands' bytes. The pass between them is ours: the logits are of
// the model's type, and their gradient takes their place.
TEST_CASE("cost: the output layer's bytes are those of its products and of the CUDA cross-entropy") {
  constexpr int64_t kV = 8192, kChunk = 8;
  for (const DType t : {DType::f32, DType::bf16}) {
    INFO(name_of(t));
    const auto size = double(size_of(t));
    const CrossEntropyProblem p({"", kChunk, kV, kV}, t, t, simt::kDeviceMemory);
    CostGraph g;
    const ValueId x = g.array({2 * kChunk, kD}, t), weight = g.array({kV, kD}, t);
    const ValueId targets = g.array({2 * kChunk}, DType::i32);
    const Cost cost =
        g.cost(ops::kHeadLoss, HeadLossAttrs{.chunk = kChunk, .with_gradient = true}, {x, weight, targets},
               {"d_x"}, {g.array({kLossSumFloats}, DType::f32), g.array({kV, kD}, DType::f32)});
    REQUIRE(cost.kernels.size() == 2);
    // Of both chunks: logits; the gradient times the weight, whose bytes are read again; the weight's gradient.
    const double x_bytes = size * 2. * kChunk * kD, weight_bytes = size * kV * kD,
                 logits = size * 2. * kChunk * kV, d_weight = 4. * kV * kD;
    const KernelCost& products = cost.kernels[0];
    CHECK(products.bytes == (x_bytes + 2 * weight_bytes + logits) + (logits + 2 * weight_bytes + x_bytes) +
                                (logits + x_bytes + 2 * 2 * d_weight));
    CHECK(products.launches == 2 * 3);
    CHECK(products.flops == cost.flops);
    CrossEntropy in_place = p.args();
    in_place.d_logits = const_cast<void*>(in_place.logits);
    check_kernel(cost.kernels[1], nullptr, [&] {
      for (int chunk = 0; chunk < 2; ++chunk) cuda::cross_entropy(in_place, {});
    });
  }
}

namespace {

constexpr double kMmaFlops = 2. * 16 * 8 * 16;

void check_attention_kernel(const KernelCost& cost, const simt::LaunchReport& report) {
  const double counted = counted_bytes(report, nullptr);
  INFO(cost.name << " and " << report.name << ": " << cost.bytes << " bytes by the engine, " << counted
                 << " counted");
  CHECK(std::abs(cost.bytes - counted) <= 0.02 * counted);
  CHECK(cost.launches == 1);
  if (cost.unit == Unit::mma) CHECK(cost.flops == kMmaFlops * double(report.mma));
  CHECK((cost.unit == Unit::mma) == (report.mma > 0));
}

}  // namespace

// Of each kernel by itself, the parts of dk and dv that one leaves the next included: whole tiles, and seven
// products backward.
TEST_CASE("cost: attention's bytes and FLOPs are those that its CUDA kernels move and multiply") {
  struct Case {
    int T, H, KV, K;
  };
  for (const auto& [T, H, KV, K] : {Case{192, 4, 2, 128}, Case{384, 4, 2, 128}, Case{200, 4, 4, 128},
                                    Case{330, 4, 1, 64}, Case{97, 2, 1, 96}}) {
    INFO("T = " << T << ", H = " << H << ", KV = " << KV << ", K = " << K);
    AttentionProblem p({"", 1, T, H, KV, K}, kType, simt::kDeviceMemory);
    p.take_workspaces(cuda::attention_forward_workspace(p.shape), cuda::attention_backward_workspace(p.shape),
                      simt::kDeviceMemory);
    CostGraph g;
    const AttentionAttrs attrs{.B = 1, .T = T, .H = H, .KV = KV, .K = K};
    const ValueId qkv = g.array({T, (H + 2 * KV) * K}), mix = g.array({T, H * K});
    const Cost forward = g.cost(ops::kAttention, attrs, {qkv, kNone}, {"out", "lse"});
    const Cost backward = g.cost(ops::kAttentionBackward, attrs,
                                 {qkv, kNone, mix, g.array({1, H, T}, DType::f32), mix}, {"d_qkv"});
    simt::Session session({.check_races = false});
    cuda::attention_forward(p.forward(), {});
    cuda::attention_backward(p.backward(), {});
    simt::finish();

    REQUIRE(session.reports().size() == 1 + backward.kernels.size());
    check_attention_kernel(only(forward), session.report("attention_forward"));
    check_attention_kernel(backward.kernels[0], session.report("attention_dq"));
    check_attention_kernel(backward.kernels[1], session.report("attention_dkv"));
    CHECK((backward.kernels.size() == 3) == (H > KV));
    if (H > KV) check_attention_kernel(backward.kernels[2], session.report("attention_dkv_sum"));
    // The model's products are four for the forward's two, of half the scores.
    CHECK(forward.flops == 2. * H * T * T * K);
    CHECK(backward.flops == 2 * forward.flops);
    if (T % 64 == 0 && K == 128) {
      CHECK(forward.kernel_flops() * T == forward.flops * (T + 64));
      CHECK(2 * backward.kernel_flops() * T == 7 * forward.flops * (T + 32));
    }
  }
}
