// Short forms that the op files share.
#pragma once

#include <string>

#include "engine/ops/op.h"
#include "kernels/common/error.h"

namespace genesis::ops {

// Throws Error if the node lacks it.
inline const Value& input(const Graph& g, const Node& n, size_t i) {
  const bool there = i < n.in.size() && n.in[i] != kNone;
  if (!there) throw Error(std::string(n.op->name) + ": input " + std::to_string(i) + " is missing");
  return g.value(n.in[i]);
}

inline ValueType type_of(const Value& v) { return {v.shape, v.dtype}; }

inline std::string to_string(const ValueType& t) { return name_of(t.dtype) + t.shape.to_string(); }

// Throws Error naming the op and its inputs unless ok.
inline void check_input(bool ok, const Graph& g, const Node& n, const char* expected) {
  if (ok) return;
  std::string found;
  for (ValueId id : n.in) {
    if (id == kNone) continue;
    found += (found.empty() ? "" : ", ") + g.value(id).name + ":" + to_string(type_of(g.value(id)));
  }
  throw Error(std::string(n.op->name) + ": expected " + expected + "; found " + found);
}

// Throws Error unless value `i` of those that the node changes is there and has this type.
inline void check_into(const Graph& g, const Node& n, size_t i, const ValueType& type) {
  std::string found = "nothing";
  if (i < n.into.size()) {
    const Value& v = g.value(n.into[i]);
    if (v.shape == type.shape && v.dtype == type.dtype) return;
    found = v.name + ":" + to_string(type_of(v));
  }
  throw Error(std::string(n.op->name) + ": expected to change a " + to_string(type) + "; found " + found);
}

// A node of one kernel, which does the model's operations and no others.
inline Cost one_kernel(const Node& n, Unit unit, double flops, double bytes, double launches = 1) {
  return {flops, 0, {{n.op->name, unit, flops, bytes, launches}}};
}

// Where a product of these operands is done.
inline Unit unit_of_products(DType operands) { return operands == DType::f32 ? Unit::fma : Unit::library; }

// An op that moves data and does a few operations an element.
template <int FlopsPerElement, int Launches = 1>
Cost elementwise_cost(const Graph& g, const Node& n) {
  return one_kernel(n, Unit::fma, double(FlopsPerElement) * double(input(g, n, 0).shape.elements()),
                    bytes_touched(g, n), Launches);
}

// Calls a kernel of either kind of device; the CPU's take no stream.
template <class Args>
void start(void (*kernel)(const Args&), const Args& args, Stream) {
  kernel(args);
}
template <class Args>
void start(void (*kernel)(const Args&, Stream), const Args& args, Stream stream) {
  kernel(args, stream);
}

// A prepared call of a kernel.
template <class Kernel, class Args>
Run call(Kernel* kernel, const Args& args) {
  return [kernel, args](Stream stream) { start(kernel, args, stream); };
}

template <class T>
T* as(void* p) {
  return static_cast<T*>(p);
}

}  // namespace genesis::ops
