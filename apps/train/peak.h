// How fast a device multiplies: what a run's model FLOP utilisation is a fraction of.
#pragma once

#include "engine/device/device.h"
#include "kernels/common/dtype.h"

namespace genesis {

// FLOP/s of a large product in this type, on the CPU with thread_count() threads: the fastest of those that fit in a
// quarter of a second. What else the machine does meanwhile makes it too low.
double measure_peak_flops(Device& device, DType dtype);

}  // namespace genesis
