// Parameters as the host sees them: fp32, whatever the model computes with.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/runtime/storage.h"

namespace genesis {

// The array that holds a parameter in fp32: its master, or itself. Null: neither is (a model that only
// computes).
const Storage::Array* master_of(const Storage& storage, const std::string& parameter);

// Sets a parameter and its master, where it has one, from fp32; the compute copy is rounded to nearest even.
// Throws Error if there is no such parameter or the sizes differ.
void set_parameter(Storage& storage, const std::string& parameter, std::span<const float> values);

// A parameter's master, or its compute copy where there is none.
std::vector<float> get_parameter(const Storage& storage, const std::string& parameter);

}  // namespace genesis
