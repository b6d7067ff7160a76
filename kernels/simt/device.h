// The device for tests and benches: a GPU, or the host executor, by the library that is linked
// (genesis_kernels_cuda or genesis_kernels_host).
#pragma once

#include "kernels/common/buffer.h"

namespace genesis::simt {

// For Buffer: managed memory on a GPU. The host may touch it until a launch and from the next finish() on; on
// the host executor it is unreadable between them, also for kernels, whose simt::load and simt::store find
// the bytes elsewhere: whoever bypasses those or forgets finish() faults.
extern const Memory kDeviceMemory;

// Waits for all launches; throws genesis::Error if one failed.
void finish();

}  // namespace genesis::simt
