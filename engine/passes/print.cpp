#include "engine/passes/print.h"

#include <fmt/format.h>

#include "engine/ops/op.h"

namespace genesis {

namespace {

std::string names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string s;
  for (size_t i = 0; i < ids.size(); ++i) {
    s += i ? ", " : "";
    if (ids[i] == kNone) {
      s += "-";
    } else {
      s += graph.has(ids[i]) ? graph.value(ids[i]).name : fmt::format("#{}", ids[i]);
    }
  }
  return s;
}

std::string describe(const Value& v) { return fmt::format("{}{}", name_of(v.dtype), v.shape.to_string()); }

}  // namespace

std::string to_string(const Graph& graph, const Node& node) {
  std::string s = fmt::format("{:<6} {}({})", name_of(node.phase), node.op->name, names(graph, node.in));
  if (!node.out.empty()) {
    s += " -> ";
    for (size_t i = 0; i < node.out.size(); ++i) {
      s += i ? ", " : "";
      if (!graph.has(node.out[i])) {
        s += names(graph, {node.out[i]});
      } else {
        const Value& v = graph.value(node.out[i]);
        s += v.name + ":" + describe(v);
        if (v.in_place_of != kNone) s += " in place";
      }
    }
  }
  if (!node.into.empty()) s += fmt::format(" into {}", names(graph, node.into));
  const std::string attrs = node.op->text ? node.op->text(node) : "";
  if (!attrs.empty()) s += fmt::format(" {{{}}}", attrs);
  if (node.recompute) s += " recompute";
  return s;
}

std::string to_string(const Graph& graph) {
  std::string s;
  for (const Node& node : graph.nodes) s += to_string(graph, node) + "\n";
  for (const Value& v : graph.values) {
    if (v.role != Role::activation) s += fmt::format("{} {}:{}\n", name_of(v.role), v.name, describe(v));
  }
  return s;
}

}  // namespace genesis
