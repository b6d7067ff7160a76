#include "engine/ops/table.h"

#include <fmt/format.h>

#include "kernels/common/error.h"

namespace genesis {

const OpDef& op_def(Op op) {
  switch (op) {
    case Op::embedding:
      return ops::kEmbedding;
    case Op::embedding_backward:
      return ops::kEmbeddingBackward;
    case Op::rmsnorm:
      return ops::kRmsNorm;
    case Op::rmsnorm_backward:
      return ops::kRmsNormBackward;
    case Op::matmul:
      return ops::kMatMul;
    case Op::rope:
      return ops::kRope;
    case Op::attention:
      return ops::kAttention;
    case Op::attention_backward:
      return ops::kAttentionBackward;
    case Op::attention_cached:
      return ops::kAttentionCached;
    case Op::swiglu:
      return ops::kSwiGlu;
    case Op::swiglu_backward:
      return ops::kSwiGluBackward;
    case Op::head_loss:
      return ops::kHeadLoss;
    case Op::add:
      return ops::kAdd;
    case Op::zero:
      return ops::kZero;
    case Op::grad_norm:
      return ops::kGradNorm;
    case Op::adamw:
      return ops::kAdamW;
  }
  throw Error("op_def: no such op");
}

namespace {

std::string text(const std::monostate&) { return ""; }
std::string text(const NormAttrs& a) { return fmt::format("eps={:g}", a.eps); }
std::string text(const MatMulAttrs& a) {
  return fmt::format("{}{}{}", a.transpose_a ? "A^T" : "A", a.transpose_b ? " B^T" : " B",
                     a.f32_out ? " f32" : "");
}
std::string text(const RopeAttrs& a) {
  return fmt::format("H={} KV={} K={} theta={:g}{}{}", a.H, a.KV, a.K, a.theta,
                     a.interleaved ? " interleaved" : "", a.inverse ? " inverse" : "");
}
std::string text(const AttentionAttrs& a) {
  return fmt::format("B={} T={} H={} KV={} K={}{}", a.B, a.T, a.H, a.KV, a.K,
                     a.document_mask ? " document_mask" : "");
}
std::string text(const SwiGluAttrs& a) { return a.clamp > 0 ? fmt::format("clamp={:g}", a.clamp) : ""; }
std::string text(const HeadLossAttrs& a) {
  return fmt::format("chunk={}{}{}", a.chunk, a.z_loss > 0 ? fmt::format(" z_loss={:g}", a.z_loss) : "",
                     a.with_gradient ? " with_gradient" : "");
}
std::string text(const GradNormAttrs& a) { return fmt::format("max_norm={:g}", a.max_norm); }
std::string text(const AdamWAttrs& a) {
  return fmt::format("beta1={:g} beta2={:g} eps={:g} tensors={}", a.beta1, a.beta2, a.eps,
                     a.weight_decay.size());
}

}  // namespace

std::string to_string(const Attrs& attrs) {
  return std::visit([](const auto& a) { return text(a); }, attrs);
}

double bytes_touched(const Graph& graph, const Node& node) {
  double bytes = 0;
  for (ValueId id : node.in) bytes += id == kNone ? 0. : double(graph.value(id).bytes());
  for (ValueId id : node.out) bytes += id == kNone ? 0. : double(graph.value(id).bytes());
  for (ValueId id : node.into) bytes += 2. * double(graph.value(id).bytes());
  return bytes;
}

Cost cost_of(const Graph& graph, const Node& node) { return op_def(node.op).cost(graph, node); }

size_t workspace_of(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  return def.workspace ? def.workspace(graph, node) : 0;
}

std::vector<MatMulShape> products_of(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  return def.products ? def.products(graph, node) : std::vector<MatMulShape>{};
}

}  // namespace genesis
