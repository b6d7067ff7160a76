// What the engine knows of an op: its row. A row stands in the op's file here, with its attributes and their
// text; the table lists all rows (engine/ops/table.cpp).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/device/device.h"
#include "engine/graph/graph.h"
#include "engine/ops/cost.h"
#include "kernels/common/error.h"
#include "kernels/common/stream.h"
#include "kernels/matmul/matmul.h"

namespace genesis {

class Differentiator;  // engine/ops/differentiator.h

// A node's attributes, which are of the struct that its op takes.
template <class A>
const A& attrs_of(const Node& node) {
  const A* attrs = std::any_cast<A>(&node.attrs);
  require(attrs != nullptr, "a node has the attributes of its op");
  return *attrs;
}
template <class A>
A& attrs_of(Node& node) {
  return const_cast<A&>(attrs_of<A>(std::as_const(node)));
}

struct ValueType {
  Shape shape;
  DType dtype;
};

// Bytes of the tables that a node's prepare writes: the memory that is planned for them.
size_t constants_of(const Graph& graph, const Node& node);

// A node whose device and storage are known.
struct BoundNode {
  const Graph& graph;
  const Node& node;
  Device& device;
  std::vector<void*> in, out, into;  // device addresses, null for kNone
  void* workspace = nullptr;
  void* constants = nullptr;

  // Writes the node's constants, a table of theirs, and returns its address on the device. Throws Error if there is
  // less memory planned.
  template <class T>
  const T* upload(const std::vector<T>& table) const {
    const size_t bytes = table.size() * sizeof(T);
    require(bytes <= constants_of(graph, node), "a node's table is no longer than its constants");
    device.copy_in(constants, table.data(), bytes);
    return static_cast<const T*>(constants);
  }

  const Value& in_value(size_t i) const { return graph.value(node.in[i]); }
  const Value& out_value(size_t i) const { return graph.value(node.out[i]); }
  const Value& into_value(size_t i) const { return graph.value(node.into[i]); }
  template <class A>
  const A& attrs() const {
    return attrs_of<A>(node);
  }
};

// Everything that can be decided before the first run is decided by prepare; what it returns only runs.
using Run = std::function<void(Stream)>;
using Prepare = Run (*)(const BoundNode&);

// An op on one kind of device.
struct DeviceOp {
  Prepare prepare = nullptr;
  // Bytes of scratch memory while the node runs, which start at a multiple of 256. Null: none.
  size_t (*workspace)(const Graph&, const Node&) = nullptr;
};

struct OpDef {
  const char* name;
  // The attributes, for people. Null: there are none.
  std::string (*text)(const Node&) = nullptr;
  // Types of the outputs; throws Error when inputs do not fit.
  std::vector<ValueType> (*infer)(const Graph&, const Node&);
  // Appends nodes that add this node's contribution to its inputs' gradients. Null: not differentiable.
  void (*grad)(Differentiator&, NodeId) = nullptr;
  Cost (*cost)(const Graph&, const Node&);
  // The matrix products inside, in the order in which they run on that kind of device. Null: none.
  std::vector<MatMulShape> (*products)(const Graph&, const Node&, DeviceKind) = nullptr;
  // Bytes of tables that prepare writes and the kernels read, which live as long as what was prepared. Null:
  // none.
  size_t (*constants)(const Graph&, const Node&) = nullptr;
  DeviceOp cpu = {};
  DeviceOp cuda = {};
  // The backward pass starts here: the node makes its input's gradient in the forward pass.
  bool loss = false;
  // The output that takes the storage of input 0. kNone: none does.
  int in_place = kNone;
  // A node that computes some outputs again more cheaply when `kept` is still there: changes a copy of the
  // node accordingly and returns true. Null: a replay is the node itself.
  bool (*replay_from)(Node& copy, ValueId kept) = nullptr;
  // The forward node's output that this backward node can give again as its last output, in its own pass and with
  // the same bits: a value that need neither be kept nor replayed. kNone if the backward node is not the
  // forward's. Null: there is no such output.
  ValueId (*given_again)(const Node& forward, const Node& backward) = nullptr;

  const DeviceOp& on(DeviceKind kind) const { return kind == DeviceKind::cpu ? cpu : cuda; }
};

// What a node computes, and what the CUDA kernels that do it multiply and move.
Cost cost_of(const Graph& graph, const Node& node);
size_t workspace_of(const Graph& graph, const Node& node, DeviceKind kind);
std::vector<MatMulShape> products_of(const Graph& graph, const Node& node, DeviceKind kind);

// Bytes of a node's inputs, outputs and accumulated values, each once (accumulated ones twice).
double bytes_touched(const Graph& graph, const Node& node);

// Appends the node, whose outputs are new activations of the inferred types with these names. An output whose name is
// empty is not wanted: kNone.
NodeId append_node(Graph& graph, Node node, const std::vector<std::string>& out_names);

}  // namespace genesis
