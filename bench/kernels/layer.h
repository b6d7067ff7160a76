// One decoder layer, forward and backward, as a training step runs it: the kernels and products of
// model/decoder.cpp's block in the same order, the gradients of its weights added in fp32.
#pragma once

#include <functional>
#include <string>

#include "kernels/attention/attention_cases.h"
#include "kernels/matmul/matmul.h"
#include "kernels/rmsnorm/rmsnorm_cases.h"
#include "kernels/rope/rope_cases.h"
#include "kernels/swiglu/swiglu_cases.h"

namespace genesis::bench {

struct LayerCase {
  std::string name;
  int64_t B, T, D, H, KV, K, F;

  int64_t rows() const { return B * T; }
};

// The model's: of its products and of attention's causal half, each product once, forward and backward.
inline double flops(const LayerCase& c) {
  const double products = double(c.D) * double((c.H + 2 * c.KV) * c.K + c.H * c.K + 3 * c.F);
  const double attention = 2. * double(c.B * c.H * c.T) * double(c.T * c.K);  // forward
  return 3 * (2. * double(c.rows()) * products + attention);
}

// y = x W^T, W [out, in], and its gradients.
template <class Device>
class Linear {
 public:
  Linear(int64_t rows, int64_t in, int64_t out, DType dtype)
      : weight_(dtype, out * in, Device::memory()),
        d_weight_(DType::f32, out * in, Device::memory()),
        y_(Device::matmul(
            {.M = rows, .N = out, .K = in, .transpose_b = true, .a = dtype, .b = dtype, .c = dtype})),
        dx_(Device::matmul({.M = rows, .N = in, .K = out, .a = dtype, .b = dtype, .c = dtype})),
        dw_(Device::matmul({.M = out,
                            .N = in,
                            .K = rows,
                            .transpose_a = true,
                            .a = dtype,
                            .b = dtype,
                            .c = DType::f32,
                            .accumulate = true})) {
    weight_.fill_normal(1, 0, 0, 0.02);
    d_weight_.fill(0);
  }

  void forward(const Buffer& x, const Buffer& y) const { y_(x.data(), weight_.data(), y.data()); }
  void backward(const Buffer& x, const Buffer& dy, const Buffer& dx) const {
    dw_(dy.data(), x.data(), d_weight_.data());
    dx_(dy.data(), weight_.data(), dx.data());
  }

 private:
  Buffer weight_, d_weight_;
  std::function<void(const void*, const void*, void*)> y_, dx_, dw_;
};

// The arrays are those of the ops' problems; where an op's output is the next one's input, they share it.
template <class Device>
class Layer {
 public:
  Layer(const LayerCase& c, DType dtype)
      : attn_norm_(norm(c, dtype)),
        ffn_norm_(norm(c, dtype)),
        attention_({"", c.B, c.T, c.H, c.KV, c.K}, dtype, Device::memory()),
        rope_({"", c.rows(), c.H, c.KV, c.K}, dtype, Device::memory()),
        swiglu_({"", c.rows(), c.F}, dtype, Device::memory()),
        branch_(dtype, c.rows() * c.D, Device::memory()),
        qkv_(c.rows(), c.D, (c.H + 2 * c.KV) * c.K, dtype),
        out_(c.rows(), c.H * c.K, c.D, dtype),
        gate_up_(c.rows(), c.D, 2 * c.F, dtype),
        down_(c.rows(), c.F, c.D, dtype) {
    attention_.take_workspaces(Device::attention_forward_workspace(attention_.shape),
                               Device::attention_backward_workspace(attention_.shape), Device::memory());
  }

  void forward() const {
    Device::rmsnorm_forward(attn_norm_.forward());
    qkv_.forward(attn_norm_.y, attention_.qkv);
    Device::rope(rotation(attention_.qkv, false));
    Device::attention_forward(attention_.forward());
    out_.forward(attention_.out, ffn_norm_.residual);

    RmsNormForward a = ffn_norm_.forward();
    a.x = attn_norm_.h.data();
    Device::rmsnorm_forward(a);
    gate_up_.forward(ffn_norm_.y, swiglu_.gate_up);
    Device::swiglu_forward(swiglu_.forward());
    down_.forward(swiglu_.y, branch_);
  }

  // ffn_norm_.d_residual is the gradient of both the branch and the stream that the layer leaves.
  void backward() const {
    down_.backward(swiglu_.y, ffn_norm_.d_residual, swiglu_.dy);
    SwiGluBackward s = swiglu_.backward();
    s.y = nullptr;  // kept by the forward pass
    Device::swiglu_backward(s);
    gate_up_.backward(ffn_norm_.y, swiglu_.d_gate_up, ffn_norm_.dy);
    Device::rmsnorm_backward(ffn_norm_.backward());

    out_.backward(attention_.out, ffn_norm_.dh, attention_.d_out);
    Device::attention_backward(attention_.backward());
    Device::rope(rotation(attention_.d_qkv, true));
    qkv_.backward(attn_norm_.y, attention_.d_qkv, attn_norm_.dy);
    RmsNormBackward a = attn_norm_.backward();
    a.d_residual = ffn_norm_.dh.data();
    Device::rmsnorm_backward(a);
  }

 private:
  static RmsNormProblem norm(const LayerCase& c, DType dtype) {
    return {{"", c.rows(), c.D}, dtype, Device::rmsnorm_backward_workspace(c.rows(), c.D), Device::memory()};
  }
  Rope rotation(const Buffer& qkv, bool inverse) const {
    Rope a = rope_.rope();
    a.qkv = qkv.data();
    a.inverse = inverse;
    return a;
  }

  RmsNormProblem attn_norm_, ffn_norm_;
  AttentionProblem attention_;
  RopeProblem rope_;
  SwiGluProblem swiglu_;
  Buffer branch_;  // what the layer adds to the stream
  Linear<Device> qkv_, out_, gate_up_, down_;
};

}  // namespace genesis::bench
