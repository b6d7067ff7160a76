// The ops and their attributes: a typed struct an op.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace genesis {

enum class Op : uint8_t {
  embedding,
  embedding_backward,
  rmsnorm,
  rmsnorm_backward,
  matmul,
  rope,
  attention,
  attention_backward,
  attention_cached,
  swiglu,
  swiglu_backward,
  head_loss,
  add,
  zero,
  grad_norm,
  adamw,
};
constexpr int kOps = int(Op::adamw) + 1;

struct NormAttrs {
  float eps = 1e-5f;
};

// c (+)= op(a) op(b); see kernels/matmul/matmul.h.
struct MatMulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
  bool f32_out = false;  // the product is not rounded to the operands' type
};

struct RopeAttrs {
  int H = 0, KV = 0, K = 0;
  float theta = 500000.f;
  bool interleaved = false;
  bool inverse = false;
};

struct AttentionAttrs {
  int B = 0, T = 0, H = 0, KV = 0, K = 0;
  bool document_mask = false;
};

struct SwiGluAttrs {
  float clamp = 0.f;
};

struct HeadLossAttrs {
  float z_loss = 0.f;
  int chunk = 0;               // tokens whose logits exist at a time
  bool with_gradient = false;  // differentiate() turns it on
};

struct GradNormAttrs {
  float max_norm = 0.f;
};

struct AdamWAttrs {
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;
  std::vector<float> weight_decay;  // a tensor each
};

using Attrs = std::variant<std::monostate, NormAttrs, MatMulAttrs, RopeAttrs, AttentionAttrs, SwiGluAttrs,
                           HeadLossAttrs, GradNormAttrs, AdamWAttrs>;

std::string to_string(const Attrs& attrs);

}  // namespace genesis
