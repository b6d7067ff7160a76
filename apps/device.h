// The device that a config asks for, and what it computes with.
#pragma once

#include <memory>
#include <string>

#include "engine/device/device.h"
#include "io/config.h"
#include "kernels/common/dtype.h"

namespace genesis {

// Opens the device and sets its number of threads: the config's, but at most one for each CPU that the process
// may use. Throws Error for a device that this build has not.
std::unique_ptr<Device> open_device(const Config::Device& config);

// After open_device, for people: "2 threads", and the config's number where it asks for more than there can be.
std::string threads_in_words(const Config::Device& config);

// What the model computes with: the config's choice, or bf16 where the device has it in hardware.
DType compute_type(const Config::Device& config);

}  // namespace genesis
