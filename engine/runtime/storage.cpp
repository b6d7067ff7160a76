#include "engine/runtime/storage.h"

#include <fmt/format.h>

#include "engine/core/align.h"
#include "kernels/common/error.h"

namespace genesis {

void Storage::bind(std::span<const Value> values) {
  std::vector<const Value*> fresh;
  size_t bytes = 0;
  for (const Value& v : values) {
    if (v.role == Role::activation) continue;
    const Array* have = find(v.name);
    check(!have || (have->value.shape == v.shape && have->value.dtype == v.dtype),
          fmt::format("'{}' is {}{} in one graph and {}{} in another", v.name,
                      have ? name_of(have->value.dtype) : "", have ? have->value.shape.to_string() : "",
                      name_of(v.dtype), v.shape.to_string()));
    if (have) continue;
    fresh.push_back(&v);
    bytes += aligned(v.bytes());
  }
  if (fresh.empty()) return;
  char* next = static_cast<char*>(blocks_.emplace_back(device_, bytes).data());
  for (const Value* v : fresh) {
    arrays_.emplace(v->name, Array{*v, next});
    next += aligned(v->bytes());
  }
}

const Storage::Array* Storage::find(std::string_view name) const {
  const auto it = arrays_.find(name);
  return it == arrays_.end() ? nullptr : &it->second;
}

namespace {

void check_size(const Storage::Array* array, std::string_view name, size_t bytes) {
  if (array == nullptr) throw Error(fmt::format("there is no array named '{}'", name));
  if (array->value.bytes() != bytes) {
    throw Error(fmt::format("'{}' has {} bytes, not {}", name, array->value.bytes(), bytes));
  }
}

}  // namespace

void Storage::write(std::string_view name, const void* host, size_t bytes) {
  const Array* array = find(name);
  check_size(array, name, bytes);
  device_.copy_in(array->data, host, bytes);
}

void Storage::read(std::string_view name, void* host, size_t bytes) const {
  const Array* array = find(name);
  check_size(array, name, bytes);
  device_.copy_out(host, array->data, bytes);
}

std::vector<const Storage::Array*> Storage::with_role(Role role) const {
  std::vector<const Array*> found;
  for (const auto& [name, array] : arrays_) {
    if (array.value.role == role) found.push_back(&array);
  }
  return found;
}

size_t Storage::bytes() const {
  size_t sum = arena_.bytes();
  for (const DeviceBuffer& block : blocks_) sum += block.bytes();
  return sum;
}

void Storage::reserve_arena(size_t bytes) {
  if (bytes <= arena_.bytes()) return;
  arena_ = DeviceBuffer();  // the old one goes first: the two need not fit together
  arena_ = DeviceBuffer(device_, bytes);
}

}  // namespace genesis
