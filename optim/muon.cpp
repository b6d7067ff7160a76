#include "optim/muon.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "engine/build/builder.h"
#include "engine/ops/muon.h"
#include "kernels/common/error.h"
#include "optim/schedule.h"

namespace genesis {
namespace {

constexpr const char* kStep = "optim.muon_step";  // MuonStep

// adamw: the update's root mean square is then about 0.2, as AdamW's is (Liu et al. 2025, arXiv:2502.16982, 2.2).
// spectral: it changes what the layer puts out by as much for every shape (Jordan et al. 2024; Bernstein 2025).
double factor(Config::MuonScale scale, int64_t rows, int64_t columns) {
  const auto r = double(rows), c = double(columns);
  return scale == Config::MuonScale::adamw ? 0.2 * std::sqrt(std::max(r, c)) : std::sqrt(std::max(1., r / c));
}

const MuonCoefficients& coefficients(Config::MuonCoefficients choice) {
  switch (choice) {
    case Config::MuonCoefficients::polar_express:
      return kMuonPolarExpress;
    case Config::MuonCoefficients::polar_express_4:
      return kMuonPolarExpress4;
    case Config::MuonCoefficients::jordan:
      return kMuonJordan;
  }
  require(false, "there are no other coefficients");
  return kMuonPolarExpress;
}

// The state of a parameter, whole.
struct State {
  ValueId gradient, master, moment, copy = kNone;
};

State declare_state(Builder& b, const TrainedParameter& t) {
  require(t.count == TrainedParameter::kWhole, "Muon takes no slices of a matrix");
  const ValueId p = b.graph().at(t.parameter);
  const Value v = b.graph().value(p);
  const auto state = [&](const std::string& name, Role role) {
    return b.persistent(name, v.shape, DType::f32, role);
  };
  State s{b.graph().at("d." + v.name), p, state(v.name + ".m", Role::moment)};
  if (v.dtype != DType::f32) s.master = state("master." + v.name, Role::master), s.copy = p;
  return s;
}

// The node of one shape of matrices.
struct Group {
  MuonAttrs attrs;
  std::vector<State> tensors;
};

}  // namespace

void MuonOptimizer::append(Graph& graph, ValueId norm_and_scale,
                           const std::vector<TrainedParameter>& trained) const {
  Builder update(graph, Phase::update);
  std::vector<TrainedParameter> others;
  std::map<std::pair<int64_t, int64_t>, Group> groups;  // by rows and columns
  for (const TrainedParameter& t : trained) {
    if (t.matrices.empty()) {
      others.push_back(t);
      continue;
    }
    const State state = declare_state(update, t);
    const int64_t columns = graph.value(state.gradient).shape[1];
    int64_t first_row = 0;
    for (const int64_t rows : t.matrices) {
      Group& group = groups[{rows, columns}];
      if (group.tensors.empty() || group.tensors.back().master != state.master)
        group.tensors.push_back(state);
      group.attrs.matrices.push_back({.tensor = int64_t(group.tensors.size()) - 1,
                                      .first_row = first_row,
                                      .weight_decay = t.decay ? float(options_.weight_decay) : 0.f});
      first_row += rows;
    }
    require(first_row == graph.value(state.gradient).shape[0], "a parameter's matrices are all of its rows");
  }
  others_.append(graph, norm_and_scale, others);

  const ValueId step = update.persistent(kStep, {1}, DType::f32, Role::input);
  for (auto& [shape, group] : groups) {
    group.attrs.rows = shape.first;
    group.attrs.columns = shape.second;
    group.attrs.beta = float(options_.momentum);
    group.attrs.factor = float(factor(options_.muon_scale, shape.first, shape.second));
    group.attrs.coefficients = coefficients(options_.muon_coefficients);
    std::vector<ValueId> in{step, norm_and_scale}, into;
    for (const State& s : group.tensors) in.push_back(s.gradient);
    for (const auto member : {&State::master, &State::moment, &State::copy}) {
      for (const State& s : group.tensors) {
        if (s.*member != kNone) into.push_back(s.*member);
      }
    }
    update.append(ops::kMuon, std::move(group.attrs), in, {}, into);
  }
}

void MuonOptimizer::write_step(Storage& storage, double lr, int64_t number) const {
  others_.write_step(storage, lr, number);
  const MuonStep now{float(matrix_learning_rate(options_, lr))};
  storage.write(kStep, &now, sizeof now);
}

}  // namespace genesis
