// Launches that do not run at once: for a stand-in of the CUDA runtime, whose streams run them when they come to it.
#pragma once

#include "kernels/simt/host/hooks.h"
#include "kernels/simt/session.h"

namespace genesis::simt::host {

// Gets every launch from now on; may throw genesis::Error to refuse one. Null: launches run at once, in the open
// session.
using LaunchTaker = void (*)(Launched launched, Stream stream);
void give_launches_to(LaunchTaker taker);

// Runs the blocks, in the open session. Throws genesis::Error for what is wrong in the kernel.
void run(const Launched& launched);

}  // namespace genesis::simt::host
