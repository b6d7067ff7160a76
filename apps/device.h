// The device that a config asks for, and what it computes with.
#pragma once

#include <memory>
#include <string>

#include "engine/device/device.h"
#include "io/config.h"
#include "kernels/common/dtype.h"

namespace genesis {

// Opens the device, which `auto` takes to be the GPU where there is one, and sets the CPU's number of threads: the
// config's, but at most one for each CPU that the process may use. Throws Error, saying why, for a device that is not
// here.
std::unique_ptr<Device> open_device(const Config::Device& config);

// The same, but the CPU for a GPU that is not here: for plans.
std::unique_ptr<Device> open_device_or_cpu(const Config::Device& config);

// After open_device, for people: a GPU's name, or "2 threads", and the config's number where it asks for more than
// there can be.
std::string in_words(const Device& device, const Config::Device& config);

// What the model computes with: the config's choice, or bf16 where the device has it in hardware, as every GPU that
// can be opened has.
DType compute_type(const Config::Device& config, DeviceKind kind);

}  // namespace genesis
