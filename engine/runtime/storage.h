// The arrays that persist between runs, by name: parameters, masters, gradients, moments, caches, inputs,
// results. Graphs that are bound to one storage share what has one name: training, evaluation and generation
// work on the same parameters.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device/device.h"
#include "engine/graph/graph.h"

namespace genesis {

class Storage {
 public:
  explicit Storage(Device& device) : device_(device) {}

  Device& device() const { return device_; }

  // Makes arrays, zeroed, of those of a graph's values that persist and whose names are new: one block of memory for
  // all of them. Throws Error, and makes none, if a name is there with another shape or type.
  void bind(std::span<const Value> values);

  // Throws Error if there is no such array, or `bytes` is not its size.
  void write(std::string_view name, const void* host, size_t bytes);
  void read(std::string_view name, void* host, size_t bytes) const;

  struct Array {
    Value value;
    void* data;  // 256-byte aligned
  };
  const Array* find(std::string_view name) const;
  std::vector<const Array*> with_role(Role role) const;  // sorted by name
  size_t bytes() const;                                  // of all blocks and the arena

  // Memory for activations, which do not outlive a run: one arena for all graphs, since one runs at a time.
  // Growing it moves it, so graphs are prepared before the first run.
  void reserve_arena(size_t bytes);
  void* arena() const { return arena_.data(); }
  size_t arena_bytes() const { return arena_.bytes(); }

 private:
  Device& device_;
  std::map<std::string, Array, std::less<>> arrays_;
  std::vector<DeviceBuffer> blocks_;  // that the arrays lie in
  DeviceBuffer arena_;
};

}  // namespace genesis
