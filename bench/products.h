// The matrix products of some of a graph's nodes alone, on arrays of their own: what a step's time and allocations are
// compared with. Each product has its own arrays, as in the step: shared ones would stay in cache.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "engine/device/device.h"
#include "engine/ops/op.h"
#include "engine/ops/product.h"

namespace genesis {

class Products {
 public:
  Products(Device& device, const Graph& graph, const std::function<bool(const Node&)>& take)
      : device_(device) {
    size_t scratch_bytes = 0;
    for (const Node& node : graph.nodes) {
      if (!take(node)) continue;
      for (const MatMulShape& s : products_of(graph, node, device.kind())) {
        flops_ += product_flops(s);
        const auto array = [&](int64_t n, DType t) {
          arrays_.emplace_back(device, size_t(n) * size_of(t));
          return arrays_.back().data();
        };
        list_.push_back({prepare_product(s, device), array(s.M * s.K, s.a), array(s.K * s.N, s.b),
                         array(s.M * s.N, s.c)});
        scratch_bytes = std::max(scratch_bytes, product_workspace(s, device.kind()));
      }
    }
    scratch_ = DeviceBuffer(device, scratch_bytes);
  }

  // Queues all of them, one after the other.
  void run() const {
    for (const One& p : list_) p.multiply(p.a, p.b, p.c, scratch_.data(), device_.stream());
  }
  double flops() const { return flops_; }

 private:
  struct One {
    Product multiply;
    void *a, *b, *c;
  };
  Device& device_;
  std::vector<DeviceBuffer> arrays_;
  DeviceBuffer scratch_;  // one product runs at a time
  std::vector<One> list_;
  double flops_ = 0;
};

}  // namespace genesis
