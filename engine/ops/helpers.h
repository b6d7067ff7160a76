// Short forms that the op files share.
#pragma once

#include <string>

#include "engine/ops/table.h"
#include "kernels/common/error.h"

namespace genesis::ops {

inline const Value& input(const Graph& g, const Node& n, size_t i) { return g.value(n.in[i]); }

inline ValueType type_of(const Value& v) { return {v.shape, v.dtype}; }

// Throws Error naming the op and its first input unless ok.
inline void check_input(bool ok, const Graph& g, const Node& n, const char* expected) {
  if (ok) return;
  std::string found;
  for (ValueId id : n.in) {
    if (id == kNone) continue;
    const Value& v = g.value(id);
    found += std::string(found.empty() ? "" : ", ") + v.name + ":" + name_of(v.dtype) + v.shape.to_string();
  }
  throw Error(std::string(op_def(n.op).name) + ": expected " + expected + "; found " + found);
}

// An op that moves data and does a few operations an element.
template <int FlopsPerElement>
Cost elementwise_cost(const Graph& g, const Node& n) {
  return {double(FlopsPerElement) * double(input(g, n, 0).shape.elements()), bytes_touched(g, n)};
}

template <class T>
T* as(void* p) {
  return static_cast<T*>(p);
}

}  // namespace genesis::ops
