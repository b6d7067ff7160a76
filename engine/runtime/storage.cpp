#include "engine/runtime/storage.h"

#include <fmt/format.h>

#include "kernels/common/error.h"

namespace genesis {

void* Storage::bind(const Value& value) {
  auto it = arrays_.find(value.name);
  if (it == arrays_.end()) {
    it = arrays_.emplace(value.name, Array{value, DeviceBuffer(device_, value.bytes())}).first;
  }
  const Value& have = it->second.value;
  check(have.shape == value.shape && have.dtype == value.dtype,
        fmt::format("'{}' is {}{} in one graph and {}{} in another", value.name, name_of(have.dtype),
                    have.shape.to_string(), name_of(value.dtype), value.shape.to_string()));
  return it->second.buffer.data();
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
  device_.copy_in(array->buffer.data(), host, bytes);
}

void Storage::read(std::string_view name, void* host, size_t bytes) const {
  const Array* array = find(name);
  check_size(array, name, bytes);
  device_.copy_out(host, array->buffer.data(), bytes);
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
  for (const auto& [name, array] : arrays_) sum += array.buffer.bytes();
  return sum;
}

void Storage::reserve_arena(size_t bytes) {
  if (bytes <= arena_.bytes()) return;
  arena_ = DeviceBuffer();  // the old one goes first: the two need not fit together
  arena_ = DeviceBuffer(device_, bytes);
}

}  // namespace genesis
