// Kernels of the host executor, as work for a stream. Apart from CUDA's headers, whose qualifiers are not the
// executor's.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/common/stream.h"

namespace genesis::standin {

// Gets each launch's name, what runs it with an order of threads and blocks drawn from a seed, and its stream.
using TakeLaunch = void (*)(const char* name, std::function<void(uint64_t seed)> run, Stream stream);
void take_launches(TakeLaunch take);

}  // namespace genesis::standin
