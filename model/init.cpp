#include "model/init.h"

#include <cmath>
#include <string_view>

#include "engine/runtime/parameters.h"
#include "kernels/common/random.h"
#include "model/decoder.h"
#include "model/executions.h"

namespace genesis {
namespace {

// FNV-1a (Fowler, Noll & Vo), 64 bits: a random stream a name.
uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return hash;
}

std::vector<float> initial_values(const Value& v, double std_dev, uint64_t seed) {
  std::vector<float> values(size_t(v.shape.elements()), 1.f);
  if (v.shape.rank() == 1) return values;
  fill_normal(values.data(), int64_t(values.size()), seed, stream_of(v.name), 0, std_dev);
  return values;
}

}  // namespace

void initialise_parameters(const Config::Model& model, uint64_t seed, Storage& storage) {
  const double runs = double(executions(model, trained_recurrence(model)).size());
  const double residual_scale = model.scale_residual_init ? 1 / std::sqrt(2 * runs) : 1;
  for (const Storage::Array* array : storage.with_role(Role::parameter)) {
    const std::string& name = array->value.name;
    const bool residual = name.ends_with("attn.out.weight") || name.ends_with("ffn.down.weight");
    const double std_dev = model.init_std * (residual ? residual_scale : 1);
    set_parameter(storage, name, initial_values(array->value, std_dev, seed));
  }
}

}  // namespace genesis
