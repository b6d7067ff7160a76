#include "optim/adamw.h"

#include "engine/graph/builder.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/optimizer.h"
#include "kernels/common/error.h"

namespace genesis {

void append_adamw(Graph& graph, ValueId loss_and_count, const AdamWOptions& options) {
  Builder update(graph, Phase::update);
  const ValueId step = update.persistent(kStepValue, {3}, DType::f32, Role::input);
  const ValueId norm_and_scale = update.persistent(kNormAndScaleValue, {2}, DType::f32, Role::result);

  std::vector<ValueId> gradients, masters, first, second, copies;
  AdamWAttrs attrs{options.beta1, options.beta2, options.eps, {}};
  for (ValueId p : graph.with_role(Role::parameter)) {
    const Value v = graph.value(p);
    gradients.push_back(graph.at("d." + v.name));
    first.push_back(update.persistent("m." + v.name, v.shape, DType::f32, Role::moment));
    second.push_back(update.persistent("v." + v.name, v.shape, DType::f32, Role::moment));
    if (v.dtype == DType::f32) {
      masters.push_back(p);
    } else {
      masters.push_back(update.persistent("master." + v.name, v.shape, DType::f32, Role::master));
      copies.push_back(p);
    }
    attrs.weight_decay.push_back(v.shape.rank() >= 2 ? options.weight_decay : 0.f);
  }
  require(copies.empty() || copies.size() == masters.size(), "parameters have one compute type");

  Node zero;
  zero.op = &ops::kZero;
  zero.phase = Phase::begin;
  zero.into = gradients;
  graph.nodes.insert(graph.nodes.begin(), std::move(zero));

  std::vector<ValueId> norm_in{loss_and_count};
  norm_in.insert(norm_in.end(), gradients.begin(), gradients.end());
  update.append(ops::kGradNorm, GradNormAttrs{options.clip_norm}, norm_in, {}, {norm_and_scale});

  std::vector<ValueId> in{step, norm_and_scale}, into = masters;
  in.insert(in.end(), gradients.begin(), gradients.end());
  for (const auto* more : {&first, &second, &copies}) into.insert(into.end(), more->begin(), more->end());
  update.append(ops::kAdamW, std::move(attrs), in, {}, into);
  verify(graph);
}

}  // namespace genesis
