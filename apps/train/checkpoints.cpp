#include "apps/train/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/runtime/parameters.h"
#include "io/run_metrics.h"
#include "kernels/common/error.h"
#include "model/executions.h"
#include "model/parameters.h"

namespace genesis {
namespace {

NamedTensor tensor(const std::string& name, const Value& v, void* data) {
  NamedTensor t{name, stored(v.dtype), {}, data};
  for (int i = 0; i < v.shape.rank(); ++i) t.shape.push_back(v.shape[i]);
  return t;
}

// A parameter's tensors by the names that others use: rows of it.
void add_parts(const Parameter& p, const NamedTensor& whole, std::vector<NamedTensor>& parts) {
  const size_t row = byte_size(whole.dtype, whole.shape, p.name) / size_t(p.shape[0]);
  for (const OutsideTensor& part : p.outside) {
    NamedTensor t = whole;
    t.name = part.name;
    t.shape[0] = part.rows;
    t.data = static_cast<char*>(whole.data) + size_t(part.first_row) * row;
    parts.push_back(std::move(t));
  }
}

// A run's arrays in host memory: on the CPU themselves, so that nothing is copied, unless copies are asked for; of
// another device copies.
class HostArrays {
 public:
  explicit HostArrays(const Storage& storage, bool copies = false)
      : in_place_(!copies && storage.device().kind() == DeviceKind::cpu) {}

  void* data(const Storage::Array& array) {
    if (in_place_) return array.data;
    return copies_.try_emplace(array.value.name, array.value.bytes()).first->second.data();
  }
  void copy_from(const Storage& storage) {
    for (auto& [name, bytes] : copies_) storage.read(name, bytes.data(), bytes.size());
  }
  void copy_to(Storage& storage) const {
    for (const auto& [name, bytes] : copies_) storage.write(name, bytes.data(), bytes.size());
  }

 private:
  const bool in_place_;
  std::map<std::string, std::vector<char>> copies_;
};

// Masters by their parameters' names, and moments.
struct TrainingTensors {
  TrainingTensors(const Storage& storage, HostArrays& arrays) {
    for (const Storage::Array* p : storage.with_role(Role::parameter)) {
      const Storage::Array* master = master_of(storage, p->value.name);
      require(master != nullptr, "a trained parameter has a master");
      masters.push_back(tensor(p->value.name, master->value, arrays.data(*master)));
    }
    for (const Storage::Array* m : storage.with_role(Role::moment)) {
      moments.push_back(tensor(m->value.name, m->value, arrays.data(*m)));
    }
  }
  std::vector<NamedTensor> masters, moments;
};

// Steps that were validated, by their loss, the later one of two that are equal.
std::vector<int64_t> best_steps(const Config& config) {
  MetricsReader reader(config.run_dir + "/metrics.jsonl");
  reader.update();
  std::map<int64_t, double> losses;
  std::set<int64_t> as_trained;
  for (const EvalRecord& e : reader.metrics().evaluations) {
    if (as_trained.contains(e.step)) continue;
    losses[e.step] = e.loss;
    if (e.recurrence == trained_recurrence(config.model)) as_trained.insert(e.step);
  }
  std::vector<int64_t> steps;
  for (const auto& [step, loss] : losses) {
    if (std::isfinite(loss)) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end(),
            [&](int64_t a, int64_t b) { return losses[a] != losses[b] ? losses[a] < losses[b] : a > b; });
  return steps;
}

}  // namespace

struct RunSnapshot::Held {
  Held(const Config& c, const TrainState& s, const Storage& storage, const CheckpointExtras& e, bool copies)
      : config(c), state(s), extras(e), arrays(storage, copies), training(storage, arrays) {
    for (const Parameter& p : parameters(config.model)) {
      const Storage::Array* array = storage.find(p.name);
      require(array != nullptr, "the storage has the model's parameters");
      add_parts(p, tensor(p.name, array->value, arrays.data(*array)), weights);
    }
    arrays.copy_from(storage);
  }

  const Config config;
  const TrainState state;
  const CheckpointExtras extras;
  HostArrays arrays;
  const TrainingTensors training;
  std::vector<NamedTensor> weights;
};

RunSnapshot::RunSnapshot(const Config& config, const TrainState& state, const Storage& storage,
                         const CheckpointExtras& extras, bool copies)
    : held_(std::make_shared<Held>(config, state, storage, extras, copies)) {}

void RunSnapshot::write(const Warn& warn) const {
  const Held& h = *held_;
  save_checkpoint(h.config.run_dir,
                  {h.state, h.extras.origin, views_of(h.weights), whole_slices(views_of(h.training.masters)),
                   whole_slices(views_of(h.training.moments)), h.extras.files},
                  warn);
  const Config::Checkpoint& keep = h.config.checkpoint;
  if (keep.keep == 0) return;
  try {
    prune_checkpoints(h.config.run_dir, keep.keep, keep.keep_every,
                      keep.keep_best ? best_steps(h.config) : std::vector<int64_t>{});
  } catch (const Error& error) {
    warn(fmt::format("WARNING: step {} is saved, and older checkpoints that are to go are still there: {}",
                     h.state.step, error.what()));
  }
}

TrainState load_run(const std::string& checkpoint, Storage& storage) {
  HostArrays arrays(storage);
  const TrainingTensors training(storage, arrays);
  load_checkpoint(checkpoint, training.masters, training.moments);
  arrays.copy_to(storage);
  for (const NamedTensor& t : training.masters)
    set_parameter(storage, t.name, get_parameter(storage, t.name));
  return read_checkpoint_state(checkpoint);
}

void load_parameters(const std::string& checkpoint, Storage& storage) {
  const Config config = parse_config(read_checkpoint_state(checkpoint).config, checkpoint + ": config");
  const std::vector<Parameter> table = parameters(config.model);
  check(table.size() == storage.with_role(Role::parameter).size(),
        checkpoint + ": the model of its config has other parameters than this one");
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> by_us, by_others;
  for (const Parameter& p : table) {
    const Storage::Array* array = storage.find(p.name);
    check(array != nullptr && array->value.shape == p.shape,
          fmt::format("{}: the model of its config has a parameter '{}' of shape {}, and this one has not",
                      checkpoint, p.name, p.shape.to_string()));
    values.emplace_back(size_t(p.shape.elements()));
    NamedTensor whole = tensor(p.name, array->value, values.back().data());
    whole.dtype = StoredDType::f32;
    add_parts(p, whole, by_others);
    by_us.push_back(std::move(whole));
  }
  load_checkpoint_weights(checkpoint, by_others, by_us);
  for (size_t i = 0; i < by_us.size(); ++i) set_parameter(storage, by_us[i].name, values[i]);
}

}  // namespace genesis
