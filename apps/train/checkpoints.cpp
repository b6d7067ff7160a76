#include "apps/train/checkpoints.h"

#include "engine/runtime/parameters.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

NamedTensor tensor(const std::string& name, const Value& v, void* data) {
  NamedTensor t{name, StoredDType::f32, {}, data};
  for (int i = 0; i < v.shape.rank(); ++i) t.shape.push_back(v.shape[i]);
  return t;
}

// A checkpoint's tensors and, on the CPU, the arrays themselves as their memory: nothing is copied.
struct RunTensors {
  explicit RunTensors(const Storage& storage) {
    require(storage.device().kind() == DeviceKind::cpu, "checkpoints are read and written from host memory");
    for (const Storage::Array* p : storage.with_role(Role::parameter)) {
      const Storage::Array* master = master_of(storage, p->value.name);
      require(master != nullptr, "a trained parameter has a master");
      model.push_back(tensor(p->value.name, master->value, master->buffer.data()));
    }
    for (const Storage::Array* m : storage.with_role(Role::moment)) {
      optimizer.push_back(tensor(m->value.name, m->value, m->buffer.data()));
    }
  }
  std::vector<NamedTensor> model, optimizer;
};

}  // namespace

void save_run(const std::string& run_dir, const TrainState& state, const Storage& storage, int64_t keep,
              const Warn& warn) {
  const RunTensors tensors(storage);
  save_checkpoint(run_dir, state, views_of(tensors.model), views_of(tensors.optimizer), warn);
  if (keep > 0) prune_checkpoints(run_dir, keep);
}

TrainState load_run(const std::string& checkpoint, Storage& storage) {
  const RunTensors tensors(storage);
  load_checkpoint(checkpoint, tensors.model, tensors.optimizer);
  for (const NamedTensor& t : tensors.model) set_parameter(storage, t.name, get_parameter(storage, t.name));
  return read_checkpoint_state(checkpoint);
}

void load_parameters(const std::string& checkpoint, Storage& storage) {
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  for (const Storage::Array* p : storage.with_role(Role::parameter)) {
    values.emplace_back(size_t(p->value.shape.elements()));
    tensors.push_back(tensor(p->value.name, p->value, values.back().data()));
  }
  load_checkpoint_model(checkpoint, tensors);
  for (size_t i = 0; i < tensors.size(); ++i) set_parameter(storage, tensors[i].name, values[i]);
}

}  // namespace genesis
