// What bench_kernels measures: every kernel on the bench shapes of its _cases.h, one list for all devices.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/layer.h"
#include "kernels/adamw/adamw_cases.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/cross_entropy/cross_entropy_cases.h"
#include "kernels/elementwise/elementwise_cases.h"
#include "kernels/embedding/embedding_cases.h"
#include "kernels/grad_norm/grad_norm_cases.h"
#include "kernels/matmul/matmul_cases.h"
#include "kernels/muon/muon_cases.h"
#include "kernels/qk_norm/qk_norm_cases.h"
#include "kernels/rmsnorm/rmsnorm_cases.h"
#include "kernels/rope/rope_cases.h"
#include "kernels/swiglu/swiglu_cases.h"

namespace genesis::bench {

// A kernel with its arrays in place.
struct Prepared {
  std::function<void()> call;
  double bytes = 0;   // a call has to move: inputs read once, outputs written once
  double flops = 0;   // of its matrix products, if these bound the call and not its bytes
  double tokens = 0;  // that a call takes through a layer, if it is one
};

struct KernelBench {
  std::string name;  // op/case/type
  DType dtype;
  std::function<Prepared()> prepare;
};

// The list for one device. Device has a static function for each launcher and workspace size, memory(),
// matmul(shape) that prepares a product of (a, b, c), and kLargest: shapes with an array of more elements are
// left out.
template <class Device>
class KernelBenches {
 public:
  std::vector<KernelBench> all(const std::vector<LayerCase>& layers) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const auto& c : kRmsNormBenchCases) rmsnorm(c, dtype);
      for (const auto& c : kSwiGluBenchCases) swiglu(c, dtype);
      for (const auto& c : kEmbeddingBenchCases) embedding(c, dtype);
      for (const auto& c : kCrossEntropyBenchCases) cross_entropy(c, dtype);
      for (const int64_t n : kElementwiseBenchCases) elementwise(n, dtype);
      for (const auto& c : kRopeBenchCases) rope(c, dtype);
      for (const auto& c : kQkNormBenchCases) qk_norm(c, dtype);
      for (const auto& c : kAttentionBenchCases) attention(c, dtype);
      for (const auto& c : kAttentionCachedBenchCases) attention_cached(c, dtype);
      for (const auto& c : kMatMulBenchCases) matmul(c, dtype);
      for (const auto& c : kMuonBenchCases) muon(c, dtype);
    }
    for (const auto& c : grad_norm_bench_cases()) grad_norm(c);
    for (const auto& c : adamw_bench_cases()) adamw(c);
    for (const auto& c : layers) layer(c);
    return std::move(list_);
  }

 private:
  void rmsnorm(const RmsNormCase& c, DType dtype) {
    const auto problem = [c, dtype] {
      const size_t workspace = Device::rmsnorm_backward_workspace(c.rows, c.D);
      auto p = std::make_shared<RmsNormProblem>(c, dtype, workspace, Device::memory());
      Device::rmsnorm_forward(p->forward());  // its outputs are the backward's inputs
      return p;
    };
    add("rmsnorm_forward", c.name, dtype, c.rows * c.D, [problem] {
      const auto p = problem();
      return Prepared{[p] { Device::rmsnorm_forward(p->forward()); }, p->forward_bytes()};
    });
    add("rmsnorm_backward", c.name, dtype, c.rows * c.D, [problem] {
      const auto p = problem();
      return Prepared{[p] { Device::rmsnorm_backward(p->backward()); }, p->backward_bytes()};
    });
  }

  void swiglu(const SwiGluCase& c, DType dtype) {
    add("swiglu_forward", c.name, dtype, c.rows * 2 * c.F, [c, dtype] {
      const auto p = std::make_shared<SwiGluProblem>(c, dtype, Device::memory());
      return Prepared{[p] { Device::swiglu_forward(p->forward()); }, p->forward_bytes()};
    });
    add("swiglu_backward", c.name, dtype, c.rows * 2 * c.F, [c, dtype] {
      const auto p = std::make_shared<SwiGluProblem>(c, dtype, Device::memory());
      return Prepared{[p] { Device::swiglu_backward(p->backward()); }, p->backward_bytes()};
    });
  }

  void embedding(const EmbeddingCase& c, DType dtype) {
    const auto problem = [c, dtype] {
      const size_t workspace = Device::embedding_backward_workspace(c.rows, c.V);
      return std::make_shared<EmbeddingProblem>(c, dtype, workspace, Device::memory());
    };
    add("embedding_forward", c.name, dtype, c.V * c.D, [problem] {
      const auto p = problem();
      return Prepared{[p] { Device::embedding_forward(p->forward()); }, p->forward_bytes()};
    });
    add("embedding_backward", c.name, dtype, c.V * c.D, [problem] {
      const auto p = problem();
      return Prepared{[p] { Device::embedding_backward(p->backward()); }, p->backward_bytes()};
    });
  }

  // `dtype` is the gradient's type.
  void cross_entropy(const CrossEntropyCase& c, DType dtype) {
    add("cross_entropy", c.name, dtype, c.rows * c.stride, [c, dtype] {
      const auto p =
          std::make_shared<CrossEntropyProblem>(c, Device::logits_type(dtype), dtype, Device::memory());
      return Prepared{[p] { Device::cross_entropy(p->args()); }, p->bytes()};
    });
  }

  void elementwise(int64_t n, DType dtype) {
    const std::string name = std::to_string(n);
    const auto problem = [n, dtype] {
      return std::make_shared<ElementwiseProblem>(n, dtype, Device::memory());
    };
    add("add", name, dtype, n, [problem] {
      const auto p = problem();
      return Prepared{[p] { Device::add(p->add()); }, p->add_bytes()};
    });
    add("cast", name, dtype, n, [problem] {
      const auto p = problem();
      const DType other = p->dtype == DType::f32 ? DType::bf16 : DType::f32;
      const auto y = std::make_shared<Buffer>(other, p->n, Device::memory());
      return Prepared{[p, y] { Device::cast(p->cast(*y)); }, p->cast_bytes(other)};
    });
    add("zero", name, dtype, n, [problem] {
      const auto p = problem();
      return Prepared{[p] { Device::zero(p->zero()); }, p->array_bytes()};
    });
  }

  void rope(const RopeCase& c, DType dtype) {
    add("rope", c.name, dtype, c.rows * (c.H + 2 * c.KV) * c.K, [c, dtype] {
      const auto p = std::make_shared<RopeProblem>(c, dtype, Device::memory());
      return Prepared{[p] { Device::rope(p->rope()); }, p->bytes()};
    });
  }

  void qk_norm(const QkNormCase& c, DType dtype) {
    const auto problem = [c, dtype] {
      const size_t workspace = Device::qk_norm_backward_workspace(c.rows, c.K);
      return std::make_shared<QkNormProblem>(c, dtype, workspace, Device::memory());
    };
    const int64_t elements = c.rows * (c.H + 2 * c.KV) * c.K;
    add("qk_norm_forward", c.name, dtype, elements, [problem] {
      const auto p = problem();
      return Prepared{[p] { Device::qk_norm_forward(p->forward()); }, p->forward_bytes()};
    });
    add("qk_norm_backward", c.name, dtype, elements, [problem] {
      const auto p = problem();
      return Prepared{[p] { Device::qk_norm_backward(p->backward()); }, p->backward_bytes()};
    });
  }

  void attention(const AttentionCase& c, DType dtype) {
    const int64_t largest_array = c.B * c.T * (c.H + 2 * c.KV) * c.K;
    const auto problem = [c, dtype] {
      auto p = std::make_shared<AttentionProblem>(c, dtype, Device::memory());
      p->take_workspaces(Device::attention_forward_workspace(p->shape),
                         Device::attention_backward_workspace(p->shape), Device::memory());
      return p;
    };
    add("attention_forward", c.name, dtype, largest_array, [problem] {
      const auto p = problem();
      return Prepared{[p] { Device::attention_forward(p->forward()); }, 0, p->forward_flops()};
    });
    add("attention_backward", c.name, dtype, largest_array, [problem] {
      const auto p = problem();
      const double flops =
          p->backward_flops();  // counted by the host from arrays that are the device's afterwards
      Device::attention_forward(p->forward());  // its outputs are the backward's inputs
      return Prepared{[p] { Device::attention_backward(p->backward()); }, 0, flops};
    });
  }

  void attention_cached(const AttentionCase& c, DType dtype) {
    add("attention_cached", c.name, dtype, c.B * c.T * (c.H + 2 * c.KV) * c.K, [c, dtype] {
      const auto p = std::make_shared<AttentionProblem>(c, dtype, Device::memory());
      const auto cache = std::make_shared<AttentionCache>(*p, c.B, Device::memory());
      cache->k.fill_normal(1, 0);
      cache->v.fill_normal(1, 1);
      std::vector<AttentionCache::Token> last;
      for (int64_t b = 0; b < c.B; ++b) last.push_back({b, c.T - 1});
      const AttentionCached step = cache->step(last);
      return Prepared{[p, cache, step] { Device::attention_cached(step); }, cache->last_step_bytes()};
    });
  }

  void matmul(const MatMulCase& c, DType dtype) {
    const DType out = MatMulProblem::takes(c, dtype, dtype) ? dtype : DType::f32;
    add("matmul", c.name, dtype, std::max({c.M * c.K, c.K * c.N, c.M * c.N}), [c, dtype, out] {
      const auto p = std::make_shared<MatMulProblem>(c, dtype, out, Device::memory());
      const auto product = Device::matmul(p->shape);
      return Prepared{[p, product] { product(p->a.data(), p->b.data(), p->c.data()); }, 0, p->flops()};
    });
  }

  void grad_norm(const GradNormCase& c) {
    add("grad_norm", c.name, DType::f32, c.sizes[0], [c] {
      const auto p = std::make_shared<GradNormProblem>(c, Device::memory());
      const auto* tensors = p->tensors.template as<GradTensor>();
      p->set_workspace(Device::grad_norm_workspace(tensors, p->count()), Device::memory());
      return Prepared{[p] { Device::grad_norm(p->args()); }, p->bytes()};
    });
  }

  void adamw(const AdamWCase& c) {
    add("adamw", c.name, DType::f32, c.sizes[0], [c] {
      const auto p = std::make_shared<AdamWProblem>(c, Device::memory());
      return Prepared{[p] { Device::adamw(p->args()); }, p->bytes()};
    });
  }

  // The passes between its products, each by itself.
  void muon(const MuonCase& c, DType dtype) {
    const auto pass = [&](const char* name, const auto& launch, double (MuonProblem::*bytes)() const) {
      add(name, c.name, dtype, c.rows * c.columns, [c, dtype, launch, bytes] {
        const size_t workspace = Device::muon_momentum_workspace(c.rows * c.columns);
        const auto p = std::make_shared<MuonProblem>(c, dtype, workspace, Device::memory());
        Device::muon_momentum(p->momentum());  // leaves a norm
        return Prepared{[p, launch] { launch(*p); }, ((*p).*bytes)()};
      });
    };
    using P = MuonProblem;
    pass(
        "muon_momentum", [](const P& p) { Device::muon_momentum(p.momentum()); }, &P::momentum_bytes);
    pass(
        "muon_normalize", [](const P& p) { Device::muon_normalize(p.normalize()); }, &P::normalize_bytes);
    pass(
        "muon_polynomial", [](const P& p) { Device::muon_polynomial(p.polynomial()); }, &P::polynomial_bytes);
    pass(
        "muon_update", [](const P& p) { Device::muon_update(p.update()); }, &P::update_bytes);
  }

  void layer(const LayerCase& c) {
    add("layer", c.name, DType::bf16, c.rows() * 2 * c.F, [c] {
      const auto layer = std::make_shared<Layer<Device>>(c, DType::bf16);
      return Prepared{[layer] {
                        layer->forward();
                        layer->backward();
                      },
                      0, flops(c), double(c.rows())};
    });
  }

  void add(const char* op, const std::string& name, DType dtype, int64_t largest_array,
           std::function<Prepared()> prepare) {
    if (largest_array > Device::kLargest) return;
    list_.push_back({std::string(op) + "/" + name + "/" + name_of(dtype), dtype, std::move(prepare)});
  }

  std::vector<KernelBench> list_;
};

}  // namespace genesis::bench
