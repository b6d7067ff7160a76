#include "model/init.h"

#include <string_view>

#include "engine/runtime/parameters.h"
#include "kernels/common/random.h"
#include "model/parameters.h"

namespace genesis {
namespace {

// FNV-1a (Fowler, Noll & Vo), 64 bits: a random stream a name.
uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return hash;
}

std::vector<float> initial_values(const Parameter& p, uint64_t seed) {
  std::vector<float> values(size_t(p.shape.elements()), 1.f);
  if (p.init_std > 0) {
    fill_normal(values.data(), int64_t(values.size()), seed, stream_of(p.name), 0, p.init_std);
  }
  return values;
}

}  // namespace

void initialise_parameters(const Config::Model& model, uint64_t seed, Storage& storage) {
  for (const Parameter& p : parameters(model)) set_parameter(storage, p.name, initial_values(p, seed));
}

}  // namespace genesis
