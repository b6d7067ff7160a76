// A case of an op as a graph of one node: the arrays of the op's Problem (its _cases.h) bound to the node's inputs and
// outputs, run on a device. What comes out is compared with the reference as the Problem's own results are.
#pragma once

#include <any>
#include <vector>

#include "engine/build/builder.h"
#include "engine/ops/op.h"
#include "engine/runtime/executable.h"
#include "kernels/common/buffer.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace genesis {

// An array and its shape; a Buffer without an array is kNone.
struct Array {
  const Buffer& buffer;
  Shape shape;
};

class OneNode {
 public:
  OneNode(Device& device, const OpDef& op, std::any attrs, const std::vector<Array>& in,
          const std::vector<Array>& out, const std::vector<Array>& into = {})
      : storage_(device) {
    Builder b(graph_);
    std::vector<ValueId> inputs, changed;
    std::vector<std::string> names;
    for (const Array& a : in) inputs.push_back(bind(b, "in", a, Role::input, read_));
    for (const Array& a : into) changed.push_back(bind(b, "into", a, Role::cache, both_));
    for (const Array& a : out) {
      names.push_back(a.buffer.data() ? "out" + std::to_string(names.size()) : "");
    }
    const int in_place = op.in_place != kNone && !names[size_t(op.in_place)].empty() ? op.in_place : kNone;
    // What is worked on in place has to be an activation: a copy, x + 0.
    if (in_place != kNone) inputs[0] = plus_zero(b, "copy", inputs[0]);
    const NodeId node = b.append(op, std::move(attrs), inputs, names, changed);
    for (int i = 0; i < int(out.size()); ++i) {
      ValueId id = graph_.nodes[size_t(node)].out[size_t(i)];
      if (id == kNone) continue;
      if (i == in_place) id = plus_zero(b, "result", id);
      graph_.value(id).role = Role::result;
      CHECK(graph_.value(id).shape == out[size_t(i)].shape);
      written_.push_back({id, &out[size_t(i)].buffer});
    }
    run();
  }

 private:
  struct Bound {
    ValueId id;
    const Buffer* buffer;
  };

  ValueId bind(Builder& b, const std::string& name, const Array& a, Role role, std::vector<Bound>& list) {
    if (!a.buffer.data()) return kNone;
    REQUIRE(a.shape.elements() == a.buffer.size());
    const ValueId id = b.persistent(name + std::to_string(list.size()), a.shape, a.buffer.dtype(), role);
    list.push_back({id, &a.buffer});
    return id;
  }

  ValueId plus_zero(Builder& b, const std::string& name, ValueId x) {
    const Value v = graph_.value(x);
    return b.add(name, x, b.persistent(name + ".zero", v.shape, v.dtype, Role::input));
  }

  void run() {
    Executable executable(graph_, storage_);
    for (const auto* list : {&read_, &both_}) {
      for (const Bound& a : *list) storage_.write(name(a), a.buffer->data(), bytes(a));
    }
    executable.run(Phase::micro);
    for (const auto* list : {&both_, &written_}) {
      for (const Bound& a : *list) storage_.read(name(a), a.buffer->data(), bytes(a));
    }
  }
  const std::string& name(const Bound& a) const { return graph_.value(a.id).name; }
  size_t bytes(const Bound& a) const { return graph_.value(a.id).bytes(); }

  Storage storage_;
  Graph graph_;
  std::vector<Bound> read_, both_, written_;
};

inline void check_results(const std::vector<Result>& results) {
  for (const Result& r : results) CHECK(mismatch(r) == "");
}

constexpr DType kFloatTypes[] = {DType::f32, DType::bf16};

}  // namespace genesis
