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

// A checkpoint's tensors in host memory: on the CPU the arrays themselves, so that nothing is copied; of another device
// copies.
class RunTensors {
 public:
  explicit RunTensors(const Storage& storage) : in_place_(storage.device().kind() == DeviceKind::cpu) {
    for (const Storage::Array* p : storage.with_role(Role::parameter)) {
      const Storage::Array* master = master_of(storage, p->value.name);
      require(master != nullptr, "a trained parameter has a master");
      add(model, p->value.name, *master);
    }
    for (const Storage::Array* m : storage.with_role(Role::moment)) add(optimizer, m->value.name, *m);
  }

  void copy_from(const Storage& storage) {
    for (Copy& c : copies_) storage.read(c.array, c.bytes.data(), c.bytes.size());
  }
  void copy_to(Storage& storage) const {
    for (const Copy& c : copies_) storage.write(c.array, c.bytes.data(), c.bytes.size());
  }

  std::vector<NamedTensor> model, optimizer;

 private:
  struct Copy {
    std::string array;
    std::vector<char> bytes;
  };

  void add(std::vector<NamedTensor>& tensors, const std::string& name, const Storage::Array& array) {
    void* data = array.data;
    if (!in_place_) {
      copies_.push_back({array.value.name, std::vector<char>(array.value.bytes())});
      data = copies_.back().bytes.data();  // which stays where it is when copies_ grows
    }
    tensors.push_back(tensor(name, array.value, data));
  }

  const bool in_place_;
  std::vector<Copy> copies_;
};

}  // namespace

void save_run(const std::string& run_dir, const TrainState& state, const Storage& storage, int64_t keep,
              const Warn& warn) {
  RunTensors tensors(storage);
  tensors.copy_from(storage);
  save_checkpoint(run_dir, state, views_of(tensors.model), views_of(tensors.optimizer), warn);
  if (keep > 0) prune_checkpoints(run_dir, keep);
}

TrainState load_run(const std::string& checkpoint, Storage& storage) {
  const RunTensors tensors(storage);
  load_checkpoint(checkpoint, tensors.model, tensors.optimizer);
  tensors.copy_to(storage);
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
