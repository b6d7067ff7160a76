// The whole model in scalar loops: forward and backward written out from the kernels' references, one array a
// step, without graph, passes or fusion. S is double, or std::complex<double> to prove the backward pass.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/attention/attention_ref.h"
#include "kernels/common/cases.h"
#include "kernels/cross_entropy/cross_entropy_ref.h"
#include "kernels/embedding/embedding_ref.h"
#include "kernels/matmul/matmul_ref.h"
#include "kernels/qk_norm/qk_norm_ref.h"
#include "kernels/rmsnorm/rmsnorm_ref.h"
#include "kernels/rope/rope_ref.h"
#include "kernels/swiglu/swiglu_ref.h"
#include "tests/support/tiny_model.h"

namespace genesis {

template <class S>
class ReferenceModel {
 public:
  using Array = std::vector<S>;
  using Parameters = std::map<std::string, Array>;  // by the names of model/decoder.h
  // How the engine makes an array that it stores.
  struct Making {
    int64_t terms;                // products that are summed for an element
    bool in_f32 = false;          // stored in fp32, whatever the model computes with
    bool narrow_factors = false;  // a factor of the products was rounded to the model's type on the way
  };
  // Called on every array that the engine stores.
  using Stored = std::function<void(Array&, const Making&)>;

  struct Result {
    S objective = S(0);      // what the gradient is of: cross-entropies, and z-losses
    S cross_entropy = S(0);  // their sum over valid targets
    int64_t count = 0;       // valid targets
    Array logits;            // [B T, V]
    Parameters gradient;
  };

  ReferenceModel(Config::Model model, int64_t recurrence, Parameters parameters, Stored stored = nullptr)
      : m_(std::move(model)), p_(std::move(parameters)), stored_(std::move(stored)) {
    const auto& r = m_.recurrence;
    const int64_t core_end = r.core > 0 ? r.prelude + r.core : 0;
    for (int64_t i = 0; i < m_.layers; ++i) {
      order_.push_back(int(i));
      if (i + 1 != core_end) continue;
      for (int64_t again = 1; again < recurrence; ++again) {
        for (int64_t j = r.prelude; j < core_end; ++j) order_.push_back(int(j));
      }
    }
  }

  Result run(const TokenBatch& batch) {
    batch_ = &batch;
    rows_ = batch.B * batch.T;
    Result result;
    Array x(size_t(rows_ * m_.hidden_size));
    ref::embedding_forward(rows_, m_.hidden_size, batch.tokens.data(), p_.at("embed.weight").data(),
                           x.data());
    std::vector<Block> blocks;
    for (int layer : order_) {
      blocks.push_back(block_forward(layer, std::move(x)));
      x = blocks.back().result;
    }
    const Norm last = norm_forward("norm", x);
    result.logits = linear(last.y, head());
    keep(result.logits, {.terms = m_.hidden_size, .in_f32 = true});
    Array d_logits = loss(result);

    result.gradient = zeros();
    gradient_ = &result.gradient;
    Array dx = norm_backward("norm", last, linear_backward(head(), last.y, d_logits), {});
    for (size_t i = order_.size(); i-- > 0;) dx = block_backward(blocks[i], std::move(dx));
    ref::embedding_backward(rows_, m_.hidden_size, batch.tokens.data(), dx.data(),
                            result.gradient.at("embed.weight").data());
    return result;
  }

 private:
  struct Norm {
    Array x, y, rstd;
  };
  struct Block {
    std::string name;
    Norm attn_norm, ffn_norm;
    Array raw, qkv, mix, gate_up, act, result;  // raw: before the rotation
  };

  std::string head() const { return m_.tie_embeddings ? "embed.weight" : "head.weight"; }

  void keep(Array& values, const Making& making) const {
    if (stored_) stored_(values, making);
  }

  Parameters zeros() const {
    Parameters z;
    for (const auto& [name, values] : p_) z[name].assign(values.size(), S(0));
    return z;
  }

  Norm norm_forward(const std::string& name, const Array& x) const {
    Norm n{x, Array(x.size()), Array(size_t(rows_))};
    Array unused(x.size());
    ref::rmsnorm_forward<S>(rows_, m_.hidden_size, double(float(m_.norm_eps)), x.data(), nullptr,
                            p_.at(name + ".weight").data(), unused.data(), n.y.data(), n.rstd.data());
    keep(n.rstd, {.terms = m_.hidden_size, .in_f32 = true});
    keep(n.y, {.terms = m_.hidden_size});
    return n;
  }

  // `passing` is the gradient that goes by the norm; empty: none.
  Array norm_backward(const std::string& name, const Norm& n, const Array& dy, const Array& passing) {
    Array dx(n.x.size());
    ref::rmsnorm_backward<S>(rows_, m_.hidden_size, dy.data(), passing.empty() ? nullptr : passing.data(),
                             n.x.data(), n.rstd.data(), p_.at(name + ".weight").data(), dx.data(),
                             gradient_->at(name + ".weight").data());
    keep(gradient_->at(name + ".weight"), {.terms = rows_, .in_f32 = true});
    keep(dx, {.terms = m_.hidden_size});
    return dx;
  }

  // x weight^T
  Array linear(const Array& x, const std::string& name) const {
    const Array& w = p_.at(name);
    const int64_t K = int64_t(x.size()) / rows_, N = int64_t(w.size()) / K;
    Array y(size_t(rows_ * N));
    ref::matmul({.M = rows_, .N = N, .K = K, .transpose_b = true}, x.data(), w.data(), y.data());
    return y;
  }

  Array linear_backward(const std::string& name, const Array& x, const Array& dy) {
    const Array& w = p_.at(name);
    const int64_t K = int64_t(x.size()) / rows_, N = int64_t(w.size()) / K;
    ref::matmul({.M = N, .N = K, .K = rows_, .transpose_a = true, .accumulate = true}, dy.data(), x.data(),
                gradient_->at(name).data());
    keep(gradient_->at(name), {.terms = rows_, .in_f32 = true});
    Array dx(x.size());
    ref::matmul({.M = rows_, .N = K, .K = N}, dy.data(), w.data(), dx.data());
    keep(dx, {.terms = N});
    return dx;
  }

  void rotate(Array& qkv, bool inverse) const {
    Rope rope;
    rope.rows = rows_;
    rope.H = m_.heads;
    rope.KV = m_.kv_heads;
    rope.K = m_.head_size;
    rope.interleaved = m_.rope_interleaved;
    rope.inverse = inverse;
    rope.theta = float(m_.rope_theta);
    rope.positions = batch_->positions.data();
    ref::rope(rope, qkv.data());
    keep(qkv, {.terms = 2});
  }

  QkNormShape qk_norm_shape() const {
    QkNormShape s;
    s.rows = rows_;
    s.H = m_.heads;
    s.KV = m_.kv_heads;
    s.K = m_.head_size;
    s.interleaved = m_.rope_interleaved;
    s.theta = float(m_.rope_theta);
    s.eps = float(m_.norm_eps);
    return s;
  }

  // Queries and keys as attention takes them.
  void rotate_forward(Block& b) const {
    b.qkv = b.raw;
    if (!m_.qk_norm) return rotate(b.qkv, false);
    ref::qk_norm_forward<S>(qk_norm_shape(), batch_->positions.data(), b.raw.data(),
                            p_.at(b.name + "attn.q_norm.weight").data(),
                            p_.at(b.name + "attn.k_norm.weight").data(), b.qkv.data());
    keep(b.qkv, {.terms = m_.head_size});
  }

  void rotate_backward(const Block& b, Array& d_qkv) {
    if (!m_.qk_norm) return rotate(d_qkv, true);
    const std::string q = b.name + "attn.q_norm.weight", k = b.name + "attn.k_norm.weight";
    ref::qk_norm_backward<S>(qk_norm_shape(), batch_->positions.data(), b.raw.data(), p_.at(q).data(),
                             p_.at(k).data(), d_qkv.data(), gradient_->at(q).data(), gradient_->at(k).data());
    keep(gradient_->at(q), {.terms = rows_ * m_.heads, .in_f32 = true});
    keep(gradient_->at(k), {.terms = rows_ * m_.kv_heads, .in_f32 = true});
    keep(d_qkv, {.terms = m_.head_size});
  }

  AttentionShape attention_shape() const {
    AttentionShape s;
    s.B = batch_->B;
    s.T = batch_->T;
    s.H = m_.heads;
    s.KV = m_.kv_heads;
    s.K = m_.head_size;
    s.scale = 1.f / std::sqrt(float(s.K));
    return s;
  }
  const int32_t* mask() const { return batch_->document_mask ? batch_->positions.data() : nullptr; }

  static Array sum(const Array& a, const Array& b) {
    Array y(a);
    for (size_t i = 0; i < y.size(); ++i) y[i] += b[i];
    return y;
  }

  Block block_forward(int layer, Array x) {
    Block b;
    b.name = "layers." + std::to_string(layer) + ".";
    b.attn_norm = norm_forward(b.name + "attn_norm", x);
    b.raw = linear(b.attn_norm.y, b.name + "attn.qkv.weight");
    keep(b.raw, {.terms = m_.hidden_size});
    rotate_forward(b);
    b.mix.resize(size_t(rows_ * m_.heads * m_.head_size));
    Array lse(size_t(rows_ * m_.heads));
    ref::attention_forward(attention_shape(), b.qkv.data(), mask(), b.mix.data(), lse.data());
    keep(b.mix, {.terms = batch_->T, .narrow_factors = true});
    Array mixed = linear(b.mix, b.name + "attn.out.weight");
    keep(mixed, {.terms = m_.heads * m_.head_size});

    Array h = sum(x, mixed);
    keep(h, {.terms = 1});
    b.ffn_norm = norm_forward(b.name + "ffn_norm", h);
    b.gate_up = linear(b.ffn_norm.y, b.name + "ffn.gate_up.weight");
    keep(b.gate_up, {.terms = m_.hidden_size});
    b.act.resize(size_t(rows_ * m_.ffn_size));
    ref::swiglu_forward(rows_, m_.ffn_size, m_.swiglu_clamp, b.gate_up.data(), b.act.data());
    keep(b.act, {.terms = 1});
    Array down = linear(b.act, b.name + "ffn.down.weight");
    keep(down, {.terms = m_.ffn_size});
    b.result = sum(h, down);
    keep(b.result, {.terms = 1});
    return b;
  }

  Array block_backward(const Block& b, Array d_result) {
    const Array d_act = linear_backward(b.name + "ffn.down.weight", b.act, d_result);
    Array d_gate_up(b.gate_up.size());
    ref::swiglu_backward(rows_, m_.ffn_size, m_.swiglu_clamp, d_act.data(), b.gate_up.data(),
                         d_gate_up.data());
    keep(d_gate_up, {.terms = 1});
    const Array d_ffn = linear_backward(b.name + "ffn.gate_up.weight", b.ffn_norm.y, d_gate_up);
    const Array dh = norm_backward(b.name + "ffn_norm", b.ffn_norm, d_ffn, d_result);

    const Array d_mix = linear_backward(b.name + "attn.out.weight", b.mix, dh);
    Array d_qkv(b.qkv.size());
    ref::attention_backward(attention_shape(), b.qkv.data(), mask(), d_mix.data(), d_qkv.data());
    keep(d_qkv, {.terms = batch_->T, .narrow_factors = true});
    rotate_backward(b, d_qkv);
    const Array d_attn = linear_backward(b.name + "attn.qkv.weight", b.attn_norm.y, d_qkv);
    return norm_backward(b.name + "attn_norm", b.attn_norm, d_attn, dh);
  }

  // Fills in the losses and gives the logits' gradient.
  Array loss(Result& result) const {
    const int64_t V = m_.vocab_size;
    const int32_t* targets = batch_->targets.data();
    const size_t rows = size_t(rows_);
    Array row_loss(rows), lse(rows), d_logits(result.logits.size());
    ref::cross_entropy_forward(rows_, V, V, result.logits.data(), targets, row_loss.data(), lse.data());
    keep(row_loss, {.terms = V, .in_f32 = true});
    for (size_t r = 0; r < rows; ++r) {
      if (targets[r] < 0) continue;
      ++result.count;
      result.cross_entropy += row_loss[r];
      result.objective += row_loss[r] + S(float(m_.z_loss)) * lse[r] * lse[r];
    }
    ref::cross_entropy_backward(rows_, V, V, double(float(m_.z_loss)), result.logits.data(), targets,
                                lse.data(), d_logits.data());
    keep(d_logits, {.terms = V});
    return d_logits;
  }

  Config::Model m_;
  Parameters p_;
  Stored stored_;
  std::vector<int> order_;  // of stored layers
  const TokenBatch* batch_ = nullptr;
  int64_t rows_ = 0;
  Parameters* gradient_ = nullptr;
};

}  // namespace genesis
