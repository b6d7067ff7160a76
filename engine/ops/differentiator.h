// What an op's grad rule works with: gradients by value, and the backward nodes that it appends.
#pragma once

#include <any>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace genesis {

class Differentiator {
 public:
  explicit Differentiator(Graph& graph) : graph_(graph), grads_(graph.values.size(), kNone) {}

  Graph& graph() { return graph_; }
  Node node(NodeId id) const { return graph_.nodes[size_t(id)]; }  // a copy: appending moves nodes

  // Whether a gradient with respect to the value is wanted: activations and parameters.
  bool wanted(ValueId v) const;
  // The sum of the gradient's contributions so far, or kNone.
  ValueId grad(ValueId v) const { return grads_[size_t(v)]; }
  // Adds a contribution to an activation's gradient.
  void contribute(ValueId v, ValueId dv);
  // Takes dv for the whole gradient so far: for rules that have added the earlier sum themselves.
  void replace(ValueId v, ValueId dv) { grads_[size_t(v)] = dv; }
  // The value that a parameter's gradient accumulates in.
  ValueId gradient_buffer(ValueId parameter);

  // Appends a backward node of forward node `of`. Empty output names: not wanted.
  std::vector<ValueId> append(NodeId of, const OpDef& op, std::any attrs, std::vector<ValueId> in,
                              std::vector<std::string> out_names, std::vector<ValueId> into = {});
  // "d.<name of v>", with a number behind it if that is taken.
  std::string grad_name(ValueId v);

 private:
  Graph& graph_;
  std::vector<ValueId> grads_;
};

}  // namespace genesis
