#include "engine/ops/elementwise.h"

#include "engine/ops/helpers.h"
#include "kernels/elementwise/elementwise.h"

namespace genesis::ops {
namespace {

// in: a, b -> a + b
std::vector<ValueType> infer_add(const Graph& g, const Node& n) {
  const Value &a = input(g, n, 0), &b = input(g, n, 1);
  check_input(a.shape == b.shape && a.dtype == b.dtype, g, n, "two arrays of one type");
  return {type_of(a)};
}

template <auto launch>
Run prepare_add(const BoundNode& b) {
  Add a;
  a.n = b.in_value(0).shape.elements();
  a.dtype = b.in_value(0).dtype;
  a.a = b.in[0];
  a.b = b.in[1];
  a.y = b.out[0];
  return call(launch, a);
}

// into: any number of values, set to zero
std::vector<ValueType> infer_zero(const Graph&, const Node&) { return {}; }

template <auto launch>
Run prepare_zero(const BoundNode& b) {
  std::vector<Run> calls;
  for (size_t i = 0; i < b.into.size(); ++i) {
    calls.push_back(call(launch, Zero{int64_t(b.into_value(i).bytes()), b.into[i]}));
  }
  return [calls](Stream stream) {
    for (const Run& zero : calls) zero(stream);
  };
}

Cost cost_zero(const Graph& g, const Node& n) {
  return one_kernel(n, Unit::fma, 0, bytes_touched(g, n) / 2, double(n.into.size()));
}

}  // namespace

const OpDef kAdd{.name = "add",
                 .infer = infer_add,
                 .cost = elementwise_cost<1>,
                 .cpu = {prepare_add<cpu::add>},
                 .cuda = {prepare_add<cuda::add>}};
const OpDef kZero{.name = "zero",
                  .infer = infer_zero,
                  .cost = cost_zero,
                  .cpu = {prepare_zero<cpu::zero>},
                  .cuda = {prepare_zero<cuda::zero>}};

}  // namespace genesis::ops
