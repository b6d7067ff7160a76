#include "model/init.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/runtime/parameters.h"
#include "kernels/common/parallel.h"
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

std::vector<float> initial_values(const Value& v, float std_dev, uint64_t seed) {
  std::vector<float> values(size_t(v.shape.elements()), 1.f);
  if (v.shape.rank() == 1) return values;
  const uint64_t stream = stream_of(v.name);
  constexpr int64_t kBlock = 1 << 14;
  const int64_t n = int64_t(values.size());
  parallel_for(block_count(n, kBlock), [&](int64_t block) {
    for (int64_t i = block * kBlock; i < std::min(n, (block + 1) * kBlock); ++i) {
      values[size_t(i)] = std_dev * random_normal(seed, stream, uint64_t(i));
    }
  });
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
    set_parameter(storage, name, initial_values(array->value, float(std_dev), seed));
  }
}

}  // namespace genesis
