#include "model/executions.h"

namespace genesis {

int64_t trained_recurrence(const Config::Model& m) { return m.recurrence.core > 0 ? m.recurrence.steps : 1; }

std::vector<Execution> executions(const Config::Model& model, int64_t recurrence) {
  std::vector<Execution> list;
  const auto run = [&](int64_t begin, int64_t end, int64_t repeat, bool several) {
    for (int64_t layer = begin; layer < end; ++layer) {
      const std::string name = "layers." + std::to_string(layer);
      list.push_back({int(layer), several ? name + "[" + std::to_string(repeat) + "]" : name});
    }
  };
  const auto& r = model.recurrence;
  if (r.core == 0) {
    run(0, model.layers, 0, false);
    return list;
  }
  run(0, r.prelude, 0, false);
  for (int64_t k = 0; k < recurrence; ++k) run(r.prelude, r.prelude + r.core, k, recurrence > 1);
  run(r.prelude + r.core, model.layers, 0, false);
  return list;
}

}  // namespace genesis
