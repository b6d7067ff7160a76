#include "engine/ops/embedding.h"

#include "engine/ops/differentiator.h"
#include "engine/ops/helpers.h"
#include "kernels/embedding/embedding.h"

namespace genesis::ops {
namespace {

// in: tokens [.., rows], table [V, D] -> y [rows, D]
std::vector<ValueType> infer(const Graph& g, const Node& n) {
  const Value &tokens = input(g, n, 0), &table = input(g, n, 1);
  check_input(tokens.dtype == DType::i32 && table.shape.rank() == 2, g, n, "tokens i32 and a table [V, D]");
  return {{{tokens.shape.elements(), table.shape[1]}, table.dtype}};
}

void grad(Differentiator& d, NodeId id) {
  const Node n = d.node(id);
  d.append(id, kEmbeddingBackward, {}, {n.in[0], d.grad(n.out[0])}, {}, {d.gradient_buffer(n.in[1])});
}

template <auto launch>
Run prepare(const BoundNode& b) {
  EmbeddingForward a;
  a.rows = b.in_value(0).shape.elements();
  a.V = b.in_value(1).shape[0];
  a.D = b.in_value(1).shape[1];
  a.dtype = b.in_value(1).dtype;
  a.tokens = as<int32_t>(b.in[0]);
  a.table = b.in[1];
  a.y = b.out[0];
  return call(launch, a);
}

Cost cost(const Graph& g, const Node& n) {  // of the table only the rows that are read
  return one_kernel(n, Unit::fma, 0, 2. * double(g.value(n.out[0]).bytes()) + double(input(g, n, 0).bytes()));
}

// in: tokens, dy; into: d_table
std::vector<ValueType> infer_backward(const Graph& g, const Node& n) {
  const Value& dy = input(g, n, 1);
  check_input(dy.shape.rank() == 2 && dy.shape[0] == input(g, n, 0).shape.elements(), g, n,
              "a row of dy a token");
  check_input(n.into.size() == 1 && g.value(n.into[0]).shape.rank() == 2, g, n, "a table to add to");
  check_into(g, n, 0, {{g.value(n.into[0]).shape[0], dy.shape[1]}, DType::f32});
  return {};
}

template <auto launch>
Run prepare_backward(const BoundNode& b) {
  EmbeddingBackward a;
  a.rows = b.in_value(0).shape.elements();
  a.V = b.into_value(0).shape[0];
  a.D = b.into_value(0).shape[1];
  a.dtype = b.in_value(1).dtype;
  a.tokens = as<int32_t>(b.in[0]);
  a.dy = b.in[1];
  a.d_table = as<float>(b.into[0]);
  a.workspace = b.workspace;
  return call(launch, a);
}

template <auto workspace>
size_t workspace_backward(const Graph& g, const Node& n) {
  return workspace(input(g, n, 0).shape.elements(), g.value(n.into[0]).shape[0]);
}

Cost cost_backward(const Graph& g, const Node& n) {
  const Value& dy = input(g, n, 1);
  const double elements = double(dy.shape.elements());
  constexpr double kLaunches = 2;  // the sort, and the sums
  return one_kernel(n, Unit::fma, elements, double(dy.bytes()) + 8. * elements, kLaunches);
}

}  // namespace

const OpDef kEmbedding{.name = "embedding",
                       .infer = infer,
                       .grad = grad,
                       .cost = cost,
                       .cpu = {prepare<cpu::embedding_forward>},
                       .cuda = {prepare<cuda::embedding_forward>}};
const OpDef kEmbeddingBackward{
    .name = "embedding_backward",
    .infer = infer_backward,
    .cost = cost_backward,
    .cpu = {prepare_backward<cpu::embedding_backward>, workspace_backward<cpu::embedding_backward_workspace>},
    .cuda = {prepare_backward<cuda::embedding_backward>,
             workspace_backward<cuda::embedding_backward_workspace>}};

}  // namespace genesis::ops
