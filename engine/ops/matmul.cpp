#include "engine/ops/matmul.h"

#include <fmt/format.h>

#include "engine/ops/differentiator.h"
#include "engine/ops/helpers.h"
#include "engine/ops/product.h"
#include "kernels/matmul/matmul.h"

namespace genesis::ops {
namespace {

std::string text(const Node& n) {
  const auto& a = attrs_of<MatMulAttrs>(n);
  return fmt::format("{}{}{}", a.transpose_a ? "A^T" : "A", a.transpose_b ? " B^T" : " B",
                     a.f32_out ? " f32" : "");
}

// in: a, b -> c = op(a) op(b); or into: c += op(a) op(b)
MatMulShape shape_of(const Graph& g, const Node& n) {
  const auto& attrs = attrs_of<MatMulAttrs>(n);
  const Value &a = input(g, n, 0), &b = input(g, n, 1);
  MatMulShape s;
  s.transpose_a = attrs.transpose_a;
  s.transpose_b = attrs.transpose_b;
  s.M = a.shape[attrs.transpose_a ? 1 : 0];
  s.K = a.shape[attrs.transpose_a ? 0 : 1];
  s.N = b.shape[attrs.transpose_b ? 0 : 1];
  s.a = a.dtype;
  s.b = b.dtype;
  s.accumulate = !n.into.empty();
  s.c = s.accumulate || attrs.f32_out ? DType::f32 : a.dtype;
  return s;
}

std::vector<ValueType> infer(const Graph& g, const Node& n) {
  const Value &a = input(g, n, 0), &b = input(g, n, 1);
  check_input(a.shape.rank() == 2 && b.shape.rank() == 2 && a.dtype == b.dtype, g, n,
              "two matrices of one type");
  const MatMulShape s = shape_of(g, n);
  check_input(b.shape[attrs_of<MatMulAttrs>(n).transpose_b ? 1 : 0] == s.K, g, n, "inner sizes that agree");
  if (s.accumulate) {
    check_into(g, n, 0, {{s.M, s.N}, DType::f32});
    return {};
  }
  return {{{s.M, s.N}, s.c}};
}

void grad(Differentiator& d, NodeId id) {
  const Node n = d.node(id);
  const auto& attrs = attrs_of<MatMulAttrs>(n);
  require(!attrs.transpose_a && attrs.transpose_b && d.graph().value(n.in[1]).role == Role::parameter,
          "the gradient of a product is that of a linear layer");
  const ValueId x = n.in[0], weight = n.in[1], dy = d.grad(n.out[0]);
  d.append(id, kMatMul, MatMulAttrs{.transpose_a = true}, {dy, x}, {}, {d.gradient_buffer(weight)});
  if (d.wanted(x)) d.contribute(x, d.append(id, kMatMul, MatMulAttrs{}, {dy, weight}, {d.grad_name(x)})[0]);
}

Run prepare(const BoundNode& b) {
  const void *x = b.in[0], *w = b.in[1];
  void *c = b.out.empty() ? b.into[0] : b.out[0], *scratch = b.workspace;
  return [product = prepare_product(shape_of(b.graph, b.node), b.device), x, w, c, scratch](Stream stream) {
    product(x, w, c, scratch, stream);
  };
}

template <DeviceKind kind>
size_t workspace(const Graph& g, const Node& n) {
  return product_workspace(shape_of(g, n), kind);
}

Cost cost(const Graph& g, const Node& n) {
  const MatMulShape s = shape_of(g, n);
  return one_kernel(n, unit_of_products(s.a), product_flops(s), product_bytes(s));
}

std::vector<MatMulShape> products(const Graph& g, const Node& n, DeviceKind) { return {shape_of(g, n)}; }

}  // namespace

const OpDef kMatMul{.name = "matmul",
                    .text = text,
                    .infer = infer,
                    .grad = grad,
                    .cost = cost,
                    .products = products,
                    .cpu = {prepare, workspace<DeviceKind::cpu>},
                    .cuda = {prepare, workspace<DeviceKind::cuda>}};

}  // namespace genesis::ops
