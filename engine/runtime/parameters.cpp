#include "engine/runtime/parameters.h"

#include "kernels/common/bf16.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

const Storage::Array& parameter_array(const Storage& storage, const std::string& name) {
  const Storage::Array* array = storage.find(name);
  check(array != nullptr && array->value.role == Role::parameter,
        "there is no parameter named '" + name + "'");
  return *array;
}

}  // namespace

const Storage::Array* master_of(const Storage& storage, const std::string& parameter) {
  const Storage::Array* master = storage.find("master." + parameter);
  if (master) return master;
  const Storage::Array* own = storage.find(parameter);
  return own && own->value.dtype == DType::f32 ? own : nullptr;
}

void set_parameter(Storage& storage, const std::string& parameter, std::span<const float> values) {
  const Storage::Array& array = parameter_array(storage, parameter);
  if (const Storage::Array* master = master_of(storage, parameter)) {
    storage.write(master->value.name, values.data(), values.size_bytes());
  }
  if (array.value.dtype == DType::bf16) {
    std::vector<bf16> rounded(values.size());
    for (size_t i = 0; i < values.size(); ++i) rounded[i] = bf16(values[i]);
    storage.write(parameter, rounded.data(), rounded.size() * sizeof(bf16));
  }
}

std::vector<float> get_parameter(const Storage& storage, const std::string& parameter) {
  const Storage::Array& array = parameter_array(storage, parameter);
  std::vector<float> values(size_t(array.value.shape.elements()));
  if (const Storage::Array* master = master_of(storage, parameter)) {
    storage.read(master->value.name, values.data(), values.size() * sizeof(float));
    return values;
  }
  std::vector<bf16> narrow(values.size());
  storage.read(parameter, narrow.data(), narrow.size() * sizeof(bf16));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(narrow[i]);
  return values;
}

}  // namespace genesis
