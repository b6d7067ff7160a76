// The static graph: flat vectors of values and nodes, integer ids, single assignment, nodes in the order in
// which they run. Passes are functions that change a graph; verify() (engine/passes/verify.h) holds after each.
#pragma once

#include <any>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/shape.h"
#include "kernels/common/dtype.h"

namespace genesis {

struct OpDef;  // engine/ops/op.h

using ValueId = int32_t;
using NodeId = int32_t;
constexpr int32_t kNone = -1;

// What a value is for. All but activations persist between runs and are found by name by every graph that
// is bound to the same storage.
enum class Role : uint8_t {
  input,       // written by the host before a run
  parameter,   // what the model computes with
  master,      // the fp32 original of a parameter whose compute type is narrower
  gradient,    // fp32 sum over micro-steps and executions
  moment,      // the optimizer's state
  cache,       // keys and values of generation
  result,      // read by the host after a run
  activation,  // lives from its producer to its last use, in the arena
};
constexpr int kRoles = 8;
const char* name_of(Role role);

// A step is: begin once, micro for each micro-batch, update once.
enum class Phase : uint8_t { begin, micro, update };
const char* name_of(Phase phase);

struct Value {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  Role role = Role::activation;
  ValueId in_place_of = kNone;  // shares the storage of this older value, which is gone from then on

  size_t bytes() const { return size_t(shape.elements()) * size_of(dtype); }
};

struct Node {
  const OpDef* op = nullptr;
  std::any attrs;  // the op's own struct (engine/ops/<op>.h), or nothing
  std::vector<ValueId> in;
  std::vector<ValueId> out;   // kNone: an optional output that nobody wants
  std::vector<ValueId> into;  // persistent values that the node changes: accumulates into, or updates
  Phase phase = Phase::micro;
  bool backward = false;   // put there by differentiate()
  bool recompute = false;  // put there by recompute(): a replay of a forward node
  int execution = kNone;   // the execution of a stored layer it belongs to
};

class Graph {
 public:
  std::vector<Value> values;
  std::vector<Node> nodes;

  ValueId add_value(Value v);
  const Value& value(ValueId id) const { return values[size_t(id)]; }
  Value& value(ValueId id) { return values[size_t(id)]; }

  bool has(ValueId id) const { return id >= 0 && size_t(id) < values.size(); }

  ValueId find(std::string_view name) const;        // kNone when there is none
  ValueId at(std::string_view name) const;          // throws Error when there is none
  std::vector<ValueId> with_role(Role role) const;  // in order of creation
  // The oldest value whose storage `id` uses; itself as a rule.
  ValueId storage_of(ValueId id) const;
};

}  // namespace genesis
