#include "optim/optimizer.h"

#include "engine/build/builder.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/optimizer.h"
#include "engine/passes/verify.h"
#include "kernels/common/error.h"
#include "optim/adamw.h"
#include "optim/muon.h"

namespace genesis {

std::unique_ptr<Optimizer> make_optimizer(const Config::Optim& options) {
  switch (options.kind) {
    case Config::OptimKind::adamw:
      return std::make_unique<AdamWOptimizer>(options);
    case Config::OptimKind::muon:
      return std::make_unique<MuonOptimizer>(options);
  }
  throw Error("unknown optimizer");
}

void append_optimizer(Graph& graph, ValueId loss_and_count, double clip_norm, const Optimizer& optimizer,
                      const std::vector<TrainedParameter>& trained) {
  std::vector<ValueId> gradients;
  for (ValueId p : graph.with_role(Role::parameter))
    gradients.push_back(graph.at("d." + graph.value(p).name));
  Node zero;
  zero.op = &ops::kZero;
  zero.phase = Phase::begin;
  zero.into = gradients;
  graph.nodes.insert(graph.nodes.begin(), std::move(zero));

  Builder update(graph, Phase::update);
  const ValueId norm_and_scale = update.persistent(kNormAndScaleValue, {2}, DType::f32, Role::result);
  std::vector<ValueId> in{loss_and_count};
  in.insert(in.end(), gradients.begin(), gradients.end());
  update.append(ops::kGradNorm, GradNormAttrs{float(clip_norm)}, in, {}, {norm_and_scale});
  optimizer.append(graph, norm_and_scale, trained);
  verify(graph);
}

}  // namespace genesis
