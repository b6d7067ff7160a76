#include "optim/adamw.h"

#include <cmath>

#include "engine/build/builder.h"
#include "engine/ops/optimizer.h"
#include "kernels/adamw/adamw.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

constexpr const char* kStep = "optim.step";  // AdamWStep: what changes from step to step

}  // namespace

void AdamWOptimizer::append(Graph& graph, ValueId norm_and_scale,
                            const std::vector<TrainedParameter>& trained) const {
  Builder update(graph, Phase::update);
  const ValueId step = update.persistent(kStep, {3}, DType::f32, Role::input);
  AdamWAttrs attrs{float(options_.beta1), float(options_.beta2), float(options_.eps), {}};
  std::vector<ValueId> gradients, masters, first, second, copies;
  for (const TrainedParameter& t : trained) {
    const ValueId p = graph.at(t.parameter);
    const Value v = graph.value(p);
    const bool whole = t.count == TrainedParameter::kWhole;
    const auto state = [&](const std::string& name, Role role) {
      return update.persistent(name, whole ? v.shape : Shape{t.count}, DType::f32, role);
    };
    gradients.push_back(graph.at("d." + v.name));
    first.push_back(state(v.name + ".m", Role::moment));
    second.push_back(state(v.name + ".v", Role::moment));
    if (v.dtype == DType::f32) {
      masters.push_back(p);
    } else {
      masters.push_back(state("master." + v.name, Role::master));
      copies.push_back(p);
    }
    attrs.tensors.push_back({t.decay ? float(options_.weight_decay) : 0.f, t.begin});
  }
  require(copies.empty() || copies.size() == masters.size(), "parameters have one compute type");

  std::vector<ValueId> in{step, norm_and_scale}, into = masters;
  in.insert(in.end(), gradients.begin(), gradients.end());
  for (const auto* more : {&first, &second, &copies}) into.insert(into.end(), more->begin(), more->end());
  update.append(ops::kAdamW, std::move(attrs), in, {}, into);
}

void AdamWOptimizer::write_step(Storage& storage, double lr, int64_t number) const {
  const double t = double(number);
  const AdamWStep now{float(lr), float(1 - std::pow(options_.beta1, t)),
                      float(1 - std::pow(options_.beta2, t))};
  storage.write(kStep, &now, sizeof now);
}

}  // namespace genesis
